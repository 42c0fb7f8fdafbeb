"""A small OpenID Connect provider: discovery, authorize, token, keys. Whoever `user` says is logged in, unasked."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey


class Provider:
    """`user` are the claims of the next login; `asked` the queries that came to /authorize."""

    def __init__(self, client: str, secret: str) -> None:
        self.client, self.secret = client, secret
        self.user: dict[str, Any] = {}
        self.asked: list[dict[str, str]] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
                outer.get(self, path, {name: values[0] for name, values in query.items()})

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.post(self, {name: values[0] for name, values in parse_qs(sent).items()})

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def discovery(self) -> str:
        return f"{self.url}/.well-known/openid-configuration"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def get(self, handler: BaseHTTPRequestHandler, path: str, query: dict[str, str]) -> None:
        match path:
            case "/.well-known/openid-configuration":
                _answer(handler, self._metadata())
            case "/keys":
                _answer(handler, {"keys": [self.key.as_dict(private=False)]})
            case "/authorize":
                assert query["client_id"] == self.client
                assert query["response_type"] == "code"
                self.asked.append(query)
                code = secrets.token_urlsafe(16)
                self.codes[code] = query
                back = urlencode({"code": code, "state": query["state"]})
                _redirect(handler, f"{query['redirect_uri']}?{back}")
            case "/logout":
                _redirect(handler, query["post_logout_redirect_uri"])
            case _:
                handler.send_error(404)

    def post(self, handler: BaseHTTPRequestHandler, sent: dict[str, str]) -> None:
        """Code for tokens: the client's secret and the proof that it is the one who asked."""
        asked = self.codes.pop(sent["code"])
        basic = base64.b64encode(f"{self.client}:{self.secret}".encode()).decode()
        proof = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if handler.headers["Authorization"] != f"Basic {basic}" or proof != asked["code_challenge"]:
            handler.send_error(401)
            return
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": self.client,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.user,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)
        _answer(handler, {"access_token": "unused", "token_type": "Bearer", "expires_in": 300, "id_token": signed})

    def _metadata(self) -> dict[str, Any]:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys",
                "end_session_endpoint": "logout"}  # fmt: skip
        return {
            "issuer": self.url, **{name: f"{self.url}/{path}" for name, path in ends.items()},
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
        }  # fmt: skip


def _answer(handler: BaseHTTPRequestHandler, answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _redirect(handler: BaseHTTPRequestHandler, to: str) -> None:
    handler.send_response(302)
    handler.send_header("Location", to)
    handler.send_header("Content-Length", "0")
    handler.end_headers()
