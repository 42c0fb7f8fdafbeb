"""Servers are taken by as many threads as there are servers; the others wait."""

import threading

from cutegen_core.execute.compiler.server_pool import MOST_SERVERS, ServerPool, count_servers


class Server:
    """Plays a worker."""

    closed = False

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self):
        self.closed = True


def test_who_compiles_alone_always_gets_the_first_server():
    pool = ServerPool(Server, 3)
    for _ in range(3):
        with pool.taken() as server:
            assert server is pool.first
            assert server.number == 0
    with pool.taken() as one, pool.taken() as two:
        assert one is pool.first
        assert two is not one


def test_one_more_than_there_are_servers_waits():
    pool, entered = ServerPool(Server, 2), threading.Event()

    def third():
        with pool.taken():
            entered.set()

    with pool.taken(), pool.taken():
        waiting = threading.Thread(target=third)
        waiting.start()
        entered.wait(0.05)
        assert not entered.is_set()
    waiting.join()
    assert entered.is_set()


def test_closing_ends_every_server():
    made = []
    pool = ServerPool(lambda number: made.append(Server(number)) or made[-1], 3)
    pool.close()
    assert [server.closed for server in made] == [True] * 3
    assert 1 <= count_servers() <= MOST_SERVERS
