"""Implement the port `Model` on a language-model server: settings per role, a budget reservation before every call."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.budget import Budget, BudgetUse, cached_price, cost_of, reserve
from cutegen_core.propose.llm.chat import ChatModel, Message, estimate_prompt_tokens
from cutegen_core.propose.llm.model_settings import ModelSettings
from cutegen_core.propose.llm.secret_keys import Key, find_key
from cutegen_core.propose.model_error import ModelError, ModelErrorKind
from cutegen_core.propose.model_port import Line, ModelReply, OneModel, PlannedCall
from cutegen_core.propose.turns import turns
from cutegen_core.records.event import Role
from cutegen_core.trajectory.state import State

_ANSWERS = frozenset({ModelErrorKind.REFUSED, ModelErrorKind.EMPTY})
_BROKEN_ANSWERS = frozenset({ModelErrorKind.TRUNCATED_STREAM, ModelErrorKind.BAD_ANSWER})
"""Failures that count as the model's answer (a broken answer only if some text came): the step fails and the loop goes
on. All others, such as a wrong address that answers with a web page, need the user."""

_SAY_EVERY_S = 0.1
_SECONDS_PER_CHARACTER = 1e-6
_WORD_CHARACTERS = 40


class ChatAnswers:
    """Answers prompts through `models.toml`; a session may name one model for every role.

    Args:
        roles: those that it answers in this session.
    """

    def __init__(self, roles: tuple[Role, ...]) -> None:
        self._roles = roles

    def plan(self, role: Role, prompt: str, state: State) -> PlannedCall:
        """Reserve tokens for the prompt and the longest answer.

        Raises:
            BudgetError: they exceed the budget.
            UsageError: no model is set up.
        """
        settings = self.settings(role, state)
        messages = [Message(turn.speaker, turn.text) for turn in turns(prompt)]
        spent = BudgetUse(prompt_tokens=state.tokens, cost=state.cost or 0.0)
        budget = Budget(state.max_tokens, state.max_cost)
        reservation = reserve(budget, spent, settings, estimate_prompt_tokens(messages))
        key = find_key(settings.base_url, chosen=_first(state).base_url)
        cost = cost_of(reservation.usage, settings)
        return _PlannedChatCall(settings, key, messages, settings.model, reservation.usage.tokens, cost)

    def context_tokens(self, state: State) -> int:
        """Return the smallest context of the models that the session asks."""
        return min(each.prompt_tokens_max for each in model_settings.read().asked(state.settings, self._roles))

    def only_one(self, state: State) -> OneModel | None:
        """Return the model, where all roles have the same settings."""
        first, *others = model_settings.read().asked(state.settings, self._roles)
        same = all(each == first for each in others)
        return OneModel(first.model, cached_price(first)) if same else None

    @staticmethod
    def settings(role: Role, state: State) -> ModelSettings:
        models, chosen = model_settings.read(), _chosen(state)
        return models.named(chosen) if chosen else models.of(role)


def _first(state: State) -> ModelSettings:
    """Return the model whose server gets the key of the environment: the first that the person named, or of the file.

    A key for one server is not sent to another, whoever writes the next alternative.
    """
    models, session = model_settings.read(), state.settings
    named = next(iter(session.effort.models), session.model)
    return models.named(named) if named else models.settings[0]


def _chosen(state: State) -> str:
    """Return the name of the model that the person chose for the step's next candidate, "" for the one of each role."""
    several, step = state.settings.effort.models, state.open_step
    return several[(step.alternative - 1) % len(several)] if several and step else state.settings.model


@dataclass(frozen=True)
class _PlannedChatCall:
    settings: ModelSettings
    key: Key | None
    messages: list[Message]
    model: str
    reserved_tokens: int
    reserved_cost: float | None

    def carry_out(self, line: Line) -> ModelReply:
        begun = time.monotonic()
        line.say("")  # clear the text of the previous call
        arrived = _LiveText(line)
        try:
            reply = ChatModel(self.settings, self.key).ask(self.messages, progress=arrived, stopped=arrived.stopped)
        except ModelError as error:
            return _reply_to_error(error, time.monotonic() - begun, cost_of(error.charged.usage, self.settings))
        usage = reply.usage
        return ModelReply(
            reply.text,
            self._word(reply.finish_reason),
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.estimated,
            reply.seconds,
            cached_tokens=usage.cached_tokens,
            cost=cost_of(usage, self.settings),
        )

    def _word(self, finish: str) -> str:
        """Return the server's reason for stopping, scrubbed and shortened; the trajectory stores it as it is."""
        word = finish[:_WORD_CHARACTERS]
        return self.key.scrub(word) if self.key else word


class _LiveText:
    """Shows the text so far a few times a second; a long text less often, because each time all of it is written."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pieces: list[str] = []
        self._characters = 0
        self._said = 0.0
        self._unsaid = False

    def __call__(self, piece: str) -> None:
        self._pieces.append(piece)
        self._characters += len(piece)
        self._unsaid = True
        self._say()

    def stopped(self) -> bool:
        """Return whether to stop; also show the latest text, since this is called while the server is silent."""
        self._say()
        return self._line.stopped()

    def _say(self) -> None:
        now = time.monotonic()
        if self._unsaid and now - self._said > _SAY_EVERY_S + self._characters * _SECONDS_PER_CHARACTER:
            self._said, self._unsaid = now, False
            self._pieces = ["".join(self._pieces)]
            self._line.say(self._pieces[0])


def _reply_to_error(error: ModelError, seconds: float, cost: float | None) -> ModelReply:
    usage = error.charged.usage
    answered = error.kind in _ANSWERS or (error.kind in _BROKEN_ANSWERS and bool(error.charged.text))
    return ModelReply(
        error.charged.text,
        str(error.kind),
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.estimated,
        seconds,
        "" if answered else str(error),
        stopped=error.kind is ModelErrorKind.CANCELLED,
        cached_tokens=usage.cached_tokens,
        cost=cost,
    )
