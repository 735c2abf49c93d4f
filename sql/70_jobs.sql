-- Jobs work across users although row-level security is forced and the server is an ordinary role:
-- these functions are SECURITY DEFINER and belong to memphant_maintenance (90_security.sql), a role
-- without login whose policies let it see every row. Each does one narrow thing.

create or replace function memory.claim_unembedded(max_rows integer)
returns table (user_id text, memory_id uuid, version integer, text text, attempts integer)
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
begin
    return query
    with claimed as (
        update memory.embedding_queue as q
        set attempts = q.attempts + 1,
            not_before = now() + memory._number('worker.lease_seconds') * interval '1 second'
        from (
            select due.user_id, due.memory_id
            from memory.embedding_queue as due
            where due.not_before <= now()
            order by due.not_before
            limit claim_unembedded.max_rows
            for update skip locked) as next
        where q.user_id = next.user_id and q.memory_id = next.memory_id
        returning q.user_id, q.memory_id, q.attempts
    )
    select m.user_id, m.id, m.version, memory.indexed_text(m.content), claimed.attempts
    from claimed
    join memory.memories as m on m.user_id = claimed.user_id and m.id = claimed.memory_id;
end;
$$;
comment on function memory.claim_unembedded(integer) is
'Leases memories that need a vector to one worker; others skip them until the lease (worker.lease_seconds) ends.';

create or replace function memory.store_embedding(user_id text, memory_id uuid, version integer, embedding halfvec)
returns boolean
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
declare
    stored boolean;
begin
    perform memory._check_embedding(store_embedding.embedding);
    update memory.memories as m
    set embedding = store_embedding.embedding
    where m.user_id = store_embedding.user_id and m.id = store_embedding.memory_id
        and m.version = store_embedding.version and m.embedding is null;
    stored := found;
    -- a memory that changed meanwhile stays in the queue, unless it has a vector or is gone
    delete from memory.embedding_queue as q
    where q.user_id = store_embedding.user_id and q.memory_id = store_embedding.memory_id
        and not exists (
            select from memory.memories as m
            where m.user_id = q.user_id and m.id = q.memory_id and m.embedding is null and m.state = 'active');
    return stored;
end;
$$;
comment on function memory.store_embedding(text, uuid, integer, halfvec) is
'Gives a claimed memory its vector, if its version is still the one that was claimed.';

create or replace function memory.postpone_embedding(user_id text, memory_id uuid, seconds double precision, error text)
returns void
language plpgsql volatile security definer
set search_path from current
as $$
begin
    update memory.embedding_queue as q
    set not_before = now() + postpone_embedding.seconds * interval '1 second',
        last_error = left(postpone_embedding.error, 200)
    where q.user_id = postpone_embedding.user_id and q.memory_id = postpone_embedding.memory_id;
end;
$$;
comment on function memory.postpone_embedding(text, uuid, double precision, text) is
'Puts a claimed memory back after a failed attempt, with the reason.';

create or replace function memory.record_uses(uses jsonb)
returns integer
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
declare
    recorded integer;
begin
    insert into memory.usage as u (user_id, memory_id, uses, last_used_at)
    select given.user_id, given.memory_id, sum(given.uses), memory._now()
    from jsonb_to_recordset(record_uses.uses) as given (user_id text, memory_id uuid, uses integer)
    join memory.memories as m on m.user_id = given.user_id and m.id = given.memory_id
    group by given.user_id, given.memory_id, m.content_hash
    -- the order in which saves lock them
    order by given.user_id, m.content_hash, given.memory_id
    on conflict (user_id, memory_id) do update
    set uses = u.uses + excluded.uses, last_used_at = greatest(u.last_used_at, excluded.last_used_at);
    get diagnostics recorded = row_count;
    return recorded;
end;
$$;
comment on function memory.record_uses(jsonb) is
'Counts uses that the server collected: [{"user_id", "memory_id", "uses"}]. A batch spans users; reads never write.';

create or replace function memory.purge(dry_run boolean default false)
returns table (what text, rows bigint)
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
declare
    forgotten_before timestamptz := memory._now() - memory._number('retention.forgotten_days') * interval '1 day';
    requested_before timestamptz := memory._now() - memory._number('retention.request_days') * interval '1 day';
begin
    what := 'forgotten memories';
    select count(*) into rows
    from memory.memories as m where m.state = 'forgotten' and m.updated_at < forgotten_before;
    if not purge.dry_run then
        delete from memory.usage as u
        using memory.memories as m
        where m.user_id = u.user_id and m.id = u.memory_id and m.state = 'forgotten' and m.updated_at < forgotten_before;
        delete from memory.versions as v
        using memory.memories as m
        where m.user_id = v.user_id and m.id = v.memory_id and m.state = 'forgotten' and m.updated_at < forgotten_before;
        delete from memory.memories as m where m.state = 'forgotten' and m.updated_at < forgotten_before;
    end if;
    return next;
    what := 'idempotency keys';
    select count(*) into rows from memory.requests as q where q.created_at < requested_before;
    if not purge.dry_run then
        delete from memory.requests as q where q.created_at < requested_before;
    end if;
    return next;
end;
$$;
comment on function memory.purge(boolean) is
'Removes for good what was forgotten longer than the grace period ago, and old idempotency keys. Only forgotten rows are ever purged.';

create or replace function memory.adopt(from_user text, to_user text)
returns table (what text, rows bigint)
language plpgsql volatile security definer
set search_path from current
as $$
#variable_conflict use_column
begin
    perform memory._check_name('from_user', adopt.from_user);
    perform memory._check_name('to_user', adopt.to_user);
    if not exists (select from memory.users as u where u.user_id = adopt.from_user) then
        perform memory._fail('MP002', format('unknown user %L', adopt.from_user), 'Check the spelling.');
    end if;
    if not exists (select from memory.users as u where u.user_id = adopt.to_user) then
        perform memory._fail('MP002', format('unknown user %L', adopt.to_user),
            'Create it first: memphant token create --user … --agent ….');
    end if;
    if adopt.from_user = adopt.to_user then
        perform memory._fail('MP005', 'from and to are the same user', 'Name two users.');
    end if;
    -- a text that the new owner already holds stays once; the other copy is archived, never lost
    update memory.memories as m
    set state = 'archived'
    where m.user_id = adopt.from_user and m.state = 'active' and exists (
        select from memory.memories as t
        where t.user_id = adopt.to_user and t.agent_id = m.agent_id and t.content_hash = m.content_hash
            and t.state = 'active');
    update memory.embedding_queue as q set user_id = adopt.to_user where q.user_id = adopt.from_user;
    update memory.usage as u set user_id = adopt.to_user where u.user_id = adopt.from_user;
    update memory.versions as v set user_id = adopt.to_user where v.user_id = adopt.from_user;
    delete from memory.requests as q where q.user_id = adopt.from_user;
    -- conversations keep their numbers, which are unique across users, so places stay unique too
    update memory.conversations as c set user_id = adopt.to_user
    where c.user_id = adopt.from_user and not exists (
        select from memory.conversations as t
        where t.user_id = adopt.to_user and t.agent_id = c.agent_id and t.conversation_id = c.conversation_id);
    delete from memory.conversations as c where c.user_id = adopt.from_user;
    what := 'memories';
    update memory.memories as m set user_id = adopt.to_user where m.user_id = adopt.from_user;
    get diagnostics rows = row_count;
    return next;
end;
$$;
comment on function memory.adopt(text, text) is
'Hands everything that one user holds to another, such as what was saved in local mode before the first token. '
'A text that both hold stays once; the other copy is archived.';
