import psycopg


def test_a_saved_memory_is_found_by_its_words(server: psycopg.Connection) -> None:
    server.execute("select memory.save('alice', 'bot', 'I bought a new car last week')")
    rows = server.execute("select content from memory.search('alice', 'bot', 'car')").fetchall()
    assert rows == [("I bought a new car last week",)]
