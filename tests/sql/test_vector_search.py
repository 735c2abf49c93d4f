"""The vector arm: exact for small tenants, all filters before any limit, absolute scores."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.sql.calling import Caller, at_cosine, partition_mate, vector

# Vectors that differ from row to row around vector(1), as an SQL expression over n.
AROUND = """l2_normalize((
    array[4.0] || (
        select array_agg(hashint8(n * 997::bigint + i) / 2147483648.0)
        from generate_series(1, 15) as i)
    || array_fill(0.0, array[368]))::vector)"""


@contextmanager
def hnsw(owner: psycopg.Connection) -> Iterator[None]:
    """Sends every search through the index, however small the tenant."""
    statement = "update memory.settings set value = %s where name = 'search.hnsw_cost'"
    owner.execute(statement, (Jsonb(0),))
    try:
        yield
    finally:
        owner.execute(statement, (None,))


@pytest.fixture(params=["exact", "hnsw"])
def _route(request: pytest.FixtureRequest, owner: psycopg.Connection) -> Iterator[None]:
    """Both ways of the vector arm."""
    with hnsw(owner) if request.param == "hnsw" else nullcontext():
        yield


def test_r08_a_small_tenant_far_away_gets_its_exact_nearest(bot: Caller, user: str) -> None:
    bot.fill(2000, "'row ' || n", AROUND)
    small = bot.other(user=f"{user}-small")
    cosines = {f"item {n}": 0.3 - n * 0.02 for n in range(50)}
    names = random.Random(8).sample(sorted(cosines), 50)
    vectors = ",".join(f'"{at_cosine(cosines[name])}"' for name in names)
    small.save_list(*names, embeddings="{" + vectors + "}")
    found = small.search("quite unrelated", embedding=vector(1))
    assert {row["content"] for row in found} == {f"item {n}" for n in range(10)}


def test_r09_a_limit_of_a_thousand_is_not_cut_by_what_an_index_scan_considers(bot: Caller) -> None:
    bot.fill(2500, "'note ' || n", AROUND)
    rows = bot.search("quite unrelated", embedding=vector(1), max_results=1000)
    assert len({row["id"] for row in rows}) == 1000


@pytest.mark.usefixtures("_route")
def test_r12_filters_hold_before_any_limit(bot: Caller) -> None:
    bot.fill(1000, "'near ' || n", AROUND)
    away = AROUND.replace("4.0", "0.5").replace("997", "991")
    bot.fill(20, "'today ' || n", away, tags="'{X}'", occurred_at="now()")
    for named in ({"tags": ["X"]}, {"tags": ["X"], "memory_types": ["fact"]}):
        found = bot.found("quite unrelated", embedding=vector(1), max_results=20, **named)
        assert len(found) == 20
        assert all(content.startswith("today") for content in found)


@pytest.mark.usefixtures("_route")
@pytest.mark.parametrize("query", ["last week", "meeting"])
def test_r11_only_rows_in_the_window_come_back(bot: Caller, query: str) -> None:
    bot.fill(300, "'meeting ' || n", AROUND, occurred_at="'2026-05-07T12:00Z'")
    bot.save("meeting in the window", occurred_at="2026-05-20T12:00Z", embedding=at_cosine(0.2))
    window = {"since": "2026-05-18T00:00Z", "until": "2026-05-25T00:00Z"}
    found = bot.found(query, embedding=vector(1), **window)
    assert found == ["meeting in the window"]
    assert bot.found("meeting", **window) == ["meeting in the window"]


def test_a_window_begins_at_since_and_ends_before_until(bot: Caller) -> None:
    for hour in (9, 10, 11):
        bot.save(f"at {hour} o'clock", occurred_at=f"2026-05-20T{hour:02}:00Z")
    window = {"since": "2026-05-20T10:00Z", "until": "2026-05-20T11:00Z"}
    assert bot.found("o'clock", **window) == ["at 10 o'clock"]
    assert bot.contents(**window) == ["at 10 o'clock"]


def test_r14_an_unrelated_query_scores_low_and_a_floor_leaves_nothing(bot: Caller) -> None:
    for number, cosine in enumerate((0.05, 0.02, 0.0)):
        bot.save(f"about apples {number}", embedding=at_cosine(cosine))
    rows = bot.search("zebra", embedding=vector(1))
    assert all(row["score"] < 0.2 for row in rows)
    assert bot.search("zebra", embedding=vector(1), min_score=0.3) == []
    match = bot.search("apples", embedding=at_cosine(0.9))[0]
    assert match["score"] > 0.7


def test_the_score_of_a_memory_does_not_depend_on_what_else_is_found(bot: Caller) -> None:
    bot.save("about apples", embedding=at_cosine(0.4))
    (alone,) = bot.search("zebra", embedding=vector(1))
    for n in range(5):
        bot.save(f"about pears {n}", embedding=at_cosine(0.8))
    rows = {row["content"]: row for row in bot.search("zebra", embedding=vector(1))}
    # only how much it is worth is compared with that of the others, and that is bounded
    assert rows["about apples"]["score"] == pytest.approx(alone["score"], rel=0.3)
    assert rows["about apples"]["vector_score"] == alone["vector_score"]


@pytest.mark.usefixtures("_route")
def test_rows_that_are_not_embedded_never_enter_the_vector_arm(bot: Caller) -> None:
    bot.save_list(*[f"without a vector {n}" for n in range(20)])
    bot.save("with a vector", embedding=at_cosine(0.1))
    rows = bot.search("quite unrelated", embedding=vector(1))
    assert [row["content"] for row in rows] == ["with a vector"]
    assert rows[0]["vector_score"] == pytest.approx(0.1, abs=0.001)
    rows = bot.search("without", embedding=vector(1), max_results=50)
    assert {row["vector_score"] for row in rows if row["content"] != "with a vector"} == {None}
    assert len(rows) == 21


def test_what_is_not_embedded_yet_is_found_by_its_words_beside_what_is(bot: Caller) -> None:
    bot.save("the heron stands in the pond", embedding=None)
    for n in range(30):
        bot.save(f"other {n}", embedding=at_cosine(0.3))
    assert bot.found("heron", embedding=vector(1))[0] == "the heron stands in the pond"


def test_a_vector_of_other_dimensions_is_refused(bot: Caller) -> None:
    bot.save("text")
    with pytest.raises(psycopg.Error) as caught:
        bot.search("text", embedding=vector(1, dimensions=768))
    assert caught.value.sqlstate == "MP007"


def test_both_ways_of_the_vector_arm_find_the_same(bot: Caller, owner: psycopg.Connection) -> None:
    seven = "case when n % 7 = 0 then '{seven}'::text[] else '{}' end"
    bot.fill(800, "'row ' || n", AROUND, tags=seven)
    for tags in (None, ["seven"]):

        def search(tags: list[str] | None = tags) -> set[str]:
            near = vector(1, 0.2, -0.3)
            return set(bot.found("unrelated", embedding=near, max_results=20, tags=tags))

        exact = search()
        with hnsw(owner):
            approximate = search()
        assert len(exact) == len(approximate) == 20
        assert len(exact & approximate) >= 19


def test_identical_vectors_of_another_tenant_do_not_hide_those_of_a_tenant(
    bot: Caller, owner: psycopg.Connection
) -> None:
    # the same greeting, saved by thousands of users, has the same vector in all of them
    other = bot.other(user=partition_mate(bot.connection, bot.user))
    other.fill(3000, "'the same greeting ' || n", f"'{vector(1)}'")
    bot.fill(20, "'row ' || n", AROUND.replace("4.0", "0.5"))
    with hnsw(owner):
        assert len(bot.found("unrelated", embedding=vector(1), max_results=20)) == 20
