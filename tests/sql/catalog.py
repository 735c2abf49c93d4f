"""What the catalog says of the schema memory, as lines that a reviewer can read."""

import psycopg

# Every table without user data, which therefore has no row-level security.
WITHOUT_USER_DATA = {
    "answer_kinds",
    "embedding_model",
    "memory_types",
    "migrations",
    "settings",
    "sources",
    "time_rules",
    "time_words",
    "value_rules",
}

FUNCTIONS = """
select format('%s(%s) -> %s  [%s]',
    p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
    concat_ws(', ', l.lanname,
        case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
        case p.proparallel when 's' then 'parallel safe' end,
        case when p.prosecdef then 'security definer' end,
        -- where pgvector lives and what a setting is set to are not what is compared here
        (select string_agg(split_part(c, '=', 1), ', ' order by c) from unnest(p.proconfig) as c)))
from pg_proc as p join pg_language as l on l.oid = p.prolang
where p.pronamespace = 'memory'::regnamespace
order by p.proname collate "C"
"""

GRANTS = """
select format('%s %s: %s', o.kind, o.name, coalesce(
    (select string_agg(g.who || ' ' || g.may, '; ' order by g.who collate "C")
    from (
        select coalesce(r.rolname, 'public') as who,
            string_agg(lower(a.privilege_type), ', ' order by a.privilege_type collate "C") as may
        from aclexplode(o.acl) as a left join pg_roles as r on r.oid = a.grantee
        -- an owner's rights need no review, and PostgreSQL 17 has one more of them
        where a.grantee <> o.owner
            and a.grantee <> (select n.nspowner from pg_namespace as n where n.nspname = 'memory')
        group by 1) as g),
    'the owner only'))
from (
    select 'schema' as kind, n.nspname::text as name, n.nspacl as acl, n.nspowner as owner
    from pg_namespace as n where n.nspname = 'memory'
    union all
    select case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end,
        c.relname, c.relacl, c.relowner
    from pg_class as c where c.relnamespace = 'memory'::regnamespace
        and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
    union all
    select 'function', p.proname, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
    from pg_proc as p where p.pronamespace = 'memory'::regnamespace
) as o
order by o.kind collate "C", o.name collate "C"
"""

POLICIES = """
select format(E'%s on %s, %s, to %s\n    using %s\n    with check %s',
    p.policyname, p.tablename, lower(p.cmd), array_to_string(p.roles, ', '),
    regexp_replace(coalesce(p.qual, '-'), '\\s+', ' ', 'g'),
    regexp_replace(coalesce(p.with_check, '-'), '\\s+', ' ', 'g'))
from pg_policies as p
where p.schemaname = 'memory'
order by p.tablename collate "C", p.policyname collate "C"
"""

UNCOMMENTED = """
select format('%s %s', o.kind, o.name)
from (
    select 'schema' as kind, n.nspname::text as name, obj_description(n.oid, 'pg_namespace') as said
    from pg_namespace as n where n.nspname = 'memory'
    union all
    select case when c.relkind in ('i', 'I') then 'index' else 'table, view or sequence' end,
        c.relname, obj_description(c.oid, 'pg_class')
    from pg_class as c
    where c.relnamespace = 'memory'::regnamespace and not c.relispartition and c.relkind <> 'c'
        -- the index of a constraint is explained by its name
        and not exists (select from pg_constraint as k where k.conindid = c.oid)
    union all
    select 'type', t.typname, obj_description(t.oid, 'pg_type')
    from pg_type as t join pg_class as c on c.oid = t.typrelid
    where c.relnamespace = 'memory'::regnamespace and c.relkind = 'c'
    union all
    select 'function', p.proname, obj_description(p.oid, 'pg_proc')
    from pg_proc as p where p.pronamespace = 'memory'::regnamespace
    union all
    select 'policy', p.polname || ' on ' || c.relname, obj_description(p.oid, 'pg_policy')
    from pg_policy as p join pg_class as c on c.oid = p.polrelid
    where c.relnamespace = 'memory'::regnamespace
    union all
    select 'trigger', t.tgname || ' on ' || c.relname, obj_description(t.oid, 'pg_trigger')
    from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
    where c.relnamespace = 'memory'::regnamespace and not t.tgisinternal and t.tgparentid = 0
) as o
where coalesce(btrim(o.said), '') = ''
order by 1
"""


def lines(connection: psycopg.Connection, query: str) -> list[str]:
    """The first column of every row."""
    return [str(row[0]) for row in connection.execute(query.encode()).fetchall()]


def whole(connection: psycopg.Connection) -> list[str]:
    """Functions, grants, policies, columns and indexes, to compare two databases."""
    columns = """
    select format('%s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
        pg_get_expr(d.adbin, d.adrelid))
    from pg_class as c join pg_attribute as a on a.attrelid = c.oid
    left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relnamespace = 'memory'::regnamespace and a.attnum > 0 and c.relkind in ('r', 'p', 'v')
    order by 1
    """
    indexes = "select indexdef from pg_indexes where schemaname = 'memory' order by 1"
    bodies = """
    select format('%s %s %s %s',
        p.proname, p.proowner::regrole, p.proconfig, md5(pg_get_functiondef(p.oid)))
    from pg_proc as p where p.pronamespace = 'memory'::regnamespace order by 1
    """
    comments = """
    select format('%s %s', pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description)
    from pg_description as d
    where pg_describe_object(d.classoid, d.objoid, d.objsubid) ~ '\\mmemory\\M'
    order by 1
    """
    queries = (FUNCTIONS, GRANTS, POLICIES, columns, indexes, bodies, comments)
    return [line for query in queries for line in lines(connection, query)]
