"""What every object of the schema must have."""

import psycopg
from tests.sql import catalog
from tests.sql.calling import scalar

# Small SQL or helper functions without a search_path of their own: a `set` on them costs about
# five times their run time and stops inlining. Everything they name is qualified.
WITHOUT_SEARCH_PATH = {
    # the grammar of time, called several times for one text
    "_easter",
    "_han_number",
    "_hebrew_day",
    "_hebrew_new_year",
    "_holiday",
    "_is_long_lunar_month",
    "_islamic_day",
    "_lunar_day",
    "_orthodox_easter",
    "_pick",
    "_solar_term",
    "_time_beside",
    "_time_date",
    "_time_meaning",
    "_time_near",
    "_time_number",
    "_time_part",
    "_time_pieces",
    "_time_range",
    "_time_read",
    "_time_relative",
    "_time_settle",
    "_time_span",
    "_time_start",
    "_time_step",
    "_time_text",
    "_time_week",
    "_time_weekday",
    "_time_year",
    # helpers of rows and checks
    "_as_json",
    "_check_content",
    "_check_metadata",
    "_check_name",
    "_check_search",
    "_check_source",
    "_check_tags",
    "_check_time_zone",
    "_check_types",
    "_content_hash",
    "_enter",
    "_enter_known",
    "_enter_writing",
    "_fail",
    "_fold",
    "_leave",
    "_lent",
    "_lower",
    "_matches",
    "_new_id",
    "_not_found",
    "_now",
    "_number",
    "_prior",
    "_reserve_places",
    "_rows",
    "_script",
    "_setting",
    "_snapshot",
    "_speaker",
    "_timestamp",
    "_why",
    "_window_end",
    "_zone",
    "_zone_of",
    "estimate_tokens",
    "indexed_text",
}


def test_every_object_has_a_comment(owner: psycopg.Connection) -> None:
    assert catalog.lines(owner, catalog.UNCOMMENTED) == []


def test_an_object_without_comment_would_be_seen(owner: psycopg.Connection) -> None:
    with owner.transaction(force_rollback=True):
        owner.execute("create function memory.bare() returns integer return 1")
        owner.execute("create index bare on memory.users (language)")
        found = catalog.lines(owner, catalog.UNCOMMENTED)
    assert {"function bare", "index bare"} <= set(found)


def test_every_column_of_memories_that_is_not_plain_is_explained(owner: psycopg.Connection) -> None:
    plain = {"user_id", "agent_id", "content", "memory_type", "source", "tags", "conversation_id"}
    plain |= {"metadata", "created_at", "updated_at"}
    uncommented = catalog.lines(
        owner,
        """select a.attname from pg_attribute as a
        where a.attrelid = 'memory.memories'::regclass and a.attnum > 0 and not a.attisdropped
            and col_description(a.attrelid, a.attnum) is null""",
    )
    assert set(uncommented) <= plain


def test_no_name_has_two_signatures(owner: psycopg.Connection) -> None:
    twice = catalog.lines(
        owner,
        """select p.proname from pg_proc as p where p.pronamespace = 'memory'::regnamespace
        group by p.proname having count(*) > 1""",
    )
    assert twice == []


def test_every_function_sets_search_path_or_is_on_the_list(owner: psycopg.Connection) -> None:
    without = catalog.lines(
        owner,
        """select p.proname from pg_proc as p where p.pronamespace = 'memory'::regnamespace
            and not exists (select from unnest(p.proconfig) as c where c like 'search_path=%')""",
    )
    assert set(without) - WITHOUT_SEARCH_PATH == set()


def test_a_search_path_begins_with_pg_catalog_and_ends_with_pg_temp(
    owner: psycopg.Connection,
) -> None:
    # what comes first is found first, and a temporary table must not stand in for anything
    paths = catalog.lines(
        owner,
        """select distinct c from pg_proc as p, unnest(p.proconfig) as c
        where p.pronamespace = 'memory'::regnamespace and c like 'search_path=%'""",
    )
    assert paths
    for path in paths:
        names = [name.strip() for name in path.removeprefix("search_path=").split(",")]
        assert (names[0], names[-1]) == ("pg_catalog", "pg_temp")
        assert "memory" not in names


def test_no_index_is_invalid(owner: psycopg.Connection) -> None:
    invalid = catalog.lines(
        owner,
        """select c.relname from pg_index as x join pg_class as c on c.oid = x.indexrelid
        where c.relnamespace = 'memory'::regnamespace and not (x.indisvalid and x.indisready)""",
    )
    assert invalid == []


def test_every_key_and_unique_index_of_user_data_begins_with_the_user_or_contains_it(
    owner: psycopg.Connection,
) -> None:
    # or the table could not be distributed by user_id
    without = catalog.lines(
        owner,
        """select c.relname from pg_index as x
        join pg_class as c on c.oid = x.indexrelid join pg_class as t on t.oid = x.indrelid
        where c.relnamespace = 'memory'::regnamespace and x.indisunique and t.relrowsecurity
            and not exists (
                select from pg_attribute as a where a.attrelid = t.oid
                    and a.attname = 'user_id' and a.attnum = any (x.indkey))""",
    )
    assert without == []


def test_every_partition_has_the_indexes_of_its_parent(owner: psycopg.Connection) -> None:
    counts = catalog.lines(
        owner,
        """select count(x.indexrelid) from pg_inherits as i
        left join pg_index as x on x.indrelid = i.inhrelid
        where i.inhparent = 'memory.memories'::regclass group by i.inhrelid""",
    )
    of_parent = scalar(
        owner, "select count(*) from pg_index where indrelid = 'memory.memories'::regclass"
    )
    assert counts == [str(of_parent)] * 16


def test_the_help_lists_every_public_function_with_its_meaning(server: psycopg.Connection) -> None:
    rows = server.execute("select function, arguments, meaning from memory.help").fetchall()
    names = {name for name, _, _ in rows}
    assert {"save", "search", "forget", "list", "get", "update"} <= names
    assert all(meaning for _, _, meaning in rows)
    assert not any(name.startswith("_") for name in names)


def test_the_overview_can_be_read_by_the_server_and_the_dba(
    server: psycopg.Connection, dba: psycopg.Connection
) -> None:
    for connection in (server, dba):
        figures: dict[str, str] = dict(
            connection.execute("select subject, figure from memory.overview").fetchall()
        )
        assert figures["invalid indexes"] == "0"
        assert "384 dimensions" in figures["embedding model"]
