-- What depends on the model: the type of the vector column and the HNSW index. Vectors of two models
-- must never meet in one index, so the model is recorded and another one is refused.

create or replace function memory._hnsw_definition()
returns text
language sql stable
set search_path from current
as $$
    select format(
        'using hnsw (embedding %I.halfvec_cosine_ops) with (m = %s, ef_construction = %s) where state = ''active''',
        n.nspname, memory._number('hnsw.m'), memory._number('hnsw.ef_construction'))
    from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
    where e.extname = 'vector'
$$;
comment on function memory._hnsw_definition() is
'The HNSW index as the settings want it, to follow `create index … on …`. memphant rebuild-index builds it anew online.';

create or replace function memory.use_model(name text, dimensions integer)
returns text
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    current memory.embedding_model;
begin
    select e.only_row, e.name, e.dimensions, e.chosen_at into current
    from memory.embedding_model as e for update;
    if current.name = use_model.name and current.dimensions = use_model.dimensions then
        return 'unchanged';
    end if;
    if use_model.dimensions not between 1 and 4000 then
        perform memory._fail('MP007', format('%s has %s dimensions; an index holds up to 4000', use_model.name, use_model.dimensions),
            'Ask the model for fewer dimensions (MEMPHANT_EMBEDDING_DIMENSIONS), or take another.');
    end if;
    if memory._any_embedding() then
        perform memory._fail('MP007',
            format('this database holds vectors of %s with %s dimensions, not of %s with %s',
                current.name, current.dimensions, use_model.name, use_model.dimensions),
            'Start with the recorded model, or use another database.');
    end if;
    drop index if exists memory.memories_embedding_hnsw;
    drop index if exists memory.memories_scan;
    execute format('alter table memory.memories alter column embedding type halfvec(%s)', use_model.dimensions);
    -- an exact scan must not detoast; above about 3,000 dimensions a row would not fit its page
    execute format('alter table memory.memories alter column embedding set storage %s',
        case when use_model.dimensions <= 3000 then 'plain' else 'external' end);
    execute 'create index memories_embedding_hnsw on memory.memories ' || memory._hnsw_definition();
    comment on index memory.memories_embedding_hnsw is 'Vectors of active memories, for tenants too large for an exact scan.';
    -- read index-only, an exact scan costs half; an entry of a btree holds 2,704 bytes
    if use_model.dimensions <= 1250 then
        create index memories_scan on memory.memories (user_id) include (agent_id, shared, place, embedding)
            where state = 'active';
        comment on index memory.memories_scan is 'Vectors of active memories user by user, for exact scans without a visit to the table.';
    end if;
    insert into memory.embedding_model as e (name, dimensions)
    values (use_model.name, use_model.dimensions)
    on conflict (only_row) do update
    set name = excluded.name, dimensions = excluded.dimensions, chosen_at = now();
    return 'chosen';
end;
$$;
comment on function memory.use_model(text, integer) is
'Chooses the embedding model of this database (owner only): its vector column and HNSW index. Refused while vectors of another model are stored.';

create or replace function memory._any_embedding()
returns boolean
language sql stable security definer
set search_path from current
as $$
    select exists (select from memory.memories as m where m.embedding is not null)
$$;
comment on function memory._any_embedding() is 'Whether any vector is stored, whoever it belongs to.';
