"""Who owns what, and what nobody may do."""

import psycopg
from tests.sql import catalog
from tests.sql.calling import scalar

# They work across users: explained in their comments, tested for what they cannot do.
SECURITY_DEFINER = {
    "_any_embedding",
    "_backlog",
    "_overview",
    "adopt",
    "authenticate",
    "claim_unembedded",
    "create_token",
    "list_tokens",
    "postpone_embedding",
    "purge",
    "record_uses",
    "revoke_token",
    "store_embedding",
    "tokens_required",
}

# Public functions that do not begin with user_id, agent_id: across users, or without any rows.
WITHOUT_IDENTITY = SECURITY_DEFINER | {
    "estimate_tokens",
    "event_time",
    "health",
    "indexed_text",
    "parse_time",
    "tokens",
    "use_model",
    "value_of",
}


def test_row_level_security_is_enabled_and_forced_on_every_table_with_user_data(
    owner: psycopg.Connection,
) -> None:
    rows = owner.execute(
        """select c.relname, c.relrowsecurity and c.relforcerowsecurity from pg_class as c
        where c.relnamespace = 'memory'::regnamespace and c.relkind in ('r', 'p')"""
    ).fetchall()
    unsecured = {name for name, secured in rows if not secured}
    assert unsecured - catalog.WITHOUT_USER_DATA == set()
    assert len([name for name, _ in rows if name.startswith("memories_")]) == 16


def test_tables_without_user_data_have_no_column_that_names_a_user(
    owner: psycopg.Connection,
) -> None:
    named = catalog.lines(
        owner,
        """select c.relname from pg_class as c join pg_attribute as a on a.attrelid = c.oid
        where c.relnamespace = 'memory'::regnamespace and c.relkind = 'r' and not c.relrowsecurity
            and a.attname in ('user_id', 'agent_id')""",
    )
    assert named == []


def test_execute_is_granted_to_nobody_by_default(owner: psycopg.Connection) -> None:
    public = catalog.lines(
        owner,
        """select p.proname from pg_proc as p
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where p.pronamespace = 'memory'::regnamespace and a.grantee = 0""",
    )
    assert public == []


def test_nothing_is_granted_on_a_partition(owner: psycopg.Connection) -> None:
    granted = catalog.lines(
        owner,
        """select format('%s to %s', c.relname, a.grantee::regrole) from pg_class as c
        cross join lateral aclexplode(c.relacl) as a
        where c.relnamespace = 'memory'::regnamespace and c.relispartition and c.relkind = 'r'
            and a.grantee <> c.relowner""",
    )
    assert granted == []


def test_what_runs_with_the_rights_of_its_owner_is_on_the_list_and_belongs_to_maintenance(
    owner: psycopg.Connection,
) -> None:
    rows = owner.execute(
        """select p.proname, p.proowner::regrole::text from pg_proc as p
        where p.pronamespace = 'memory'::regnamespace and p.prosecdef"""
    ).fetchall()
    assert {name for name, _ in rows} - SECURITY_DEFINER == set()
    assert {role for _, role in rows} == {"memphant_maintenance"}


def test_maintenance_owns_functions_and_nothing_else(owner: psycopg.Connection) -> None:
    owned = scalar(
        owner,
        "select count(*) from pg_class as c where c.relowner = 'memphant_maintenance'::regrole",
    )
    assert owned == 0
    assert not scalar(
        owner, "select has_schema_privilege('memphant_maintenance', 'memory', 'create')"
    )


def test_no_role_of_memphant_is_superuser_bypasses_security_or_may_more_than_it_needs(
    owner: psycopg.Connection,
) -> None:
    rows = owner.execute(
        """select r.rolname, r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb
            or r.rolreplication
        from pg_roles as r
        where r.rolname in ('memphant_server', 'memphant_dba', 'memphant_maintenance')"""
    ).fetchall()
    assert sorted(rows) == [
        ("memphant_dba", False),
        ("memphant_maintenance", False),
        ("memphant_server", False),
    ]


def test_nobody_can_log_in_as_maintenance_or_become_it(owner: psycopg.Connection) -> None:
    assert not scalar(
        owner, "select rolcanlogin from pg_roles where rolname = 'memphant_maintenance'"
    )
    inheriting = catalog.lines(
        owner,
        """select r.rolname from pg_roles as r
        where not r.rolsuper and r.rolname <> 'memphant_maintenance'
            and pg_has_role(r.rolname, 'memphant_maintenance', 'usage')""",
    )
    assert inheriting == []


def test_the_role_of_the_server_is_neither_owner_nor_superuser(
    server: psycopg.Connection,
) -> None:
    assert scalar(server, "select current_setting('is_superuser')") == "off"
    owned = scalar(
        server,
        """select count(*) from pg_class as c where c.relnamespace = 'memory'::regnamespace
        and pg_has_role(c.relowner, 'usage')""",
    )
    assert owned == 0


def test_public_functions_take_user_and_agent_first_save_those_on_the_list(
    owner: psycopg.Connection,
) -> None:
    without = catalog.lines(
        owner,
        """select p.proname from pg_proc as p
        where p.pronamespace = 'memory'::regnamespace and p.proname not like '\\_%'
            and (p.proargnames[1:2] is distinct from array['user_id', 'agent_id']
                or p.proargtypes[0] <> 'text'::regtype or p.proargtypes[1] <> 'text'::regtype)""",
    )
    assert set(without) - WITHOUT_IDENTITY == set()
