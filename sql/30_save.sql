-- Saving. Exactly once rests on unique indexes and `on conflict`, never on check-then-insert. All
-- saves take their locks in one order (idempotency keys, conversations, texts; each sorted), so
-- batches cannot deadlock.

create or replace function memory._reserve_places(user_id text, agent_id text, conversation_id text, turns integer)
returns bigint
language sql volatile
as $$
    insert into memory.conversations as c (user_id, agent_id, conversation_id, number, turns)
    values ($1, $2, $3, nextval('memory.conversation_numbers'), $4)
    on conflict (user_id, agent_id, conversation_id) do update set
        -- a conversation of more than a million turns goes on under a new number
        number = case when c.turns + $4 < 1048570 then c.number else excluded.number end,
        turns = case when c.turns + $4 < 1048570 then c.turns + $4 else $4 end
    returning c.number * 1048576 + c.turns - $4
$$;
comment on function memory._reserve_places(text, text, text, integer) is
'Numbers the next turns of a conversation and returns the place of the first: number of the conversation × 2^20 + turn.';

create or replace function memory._reinforce(d memory.memories, item jsonb)
returns uuid
language plpgsql volatile
set search_path from current
as $$
declare
    existing memory.memories;
    ceiling real;
    other_conversation boolean;
begin
    select m.id, m.confidence, m.conversation_id, m.occurred_at, m.source
    into existing.id, existing.confidence, existing.conversation_id, existing.occurred_at, existing.source
    from memory.memories as m
    where m.user_id = d.user_id and m.agent_id = d.agent_id and m.content_hash = d.content_hash and m.state = 'active'
    for no key update;
    if not found then
        return null;
    end if;
    select max(s.maximum_confidence) into ceiling
    from memory.sources as s where s.name in (d.source, existing.source);
    other_conversation := d.conversation_id is distinct from existing.conversation_id
        or abs(extract(epoch from d.occurred_at - existing.occurred_at)) >= 86400;
    perform set_config('memory.operation', 'reinforce', true);
    update memory.memories as m
    set memory_type = case when _reinforce.item ? 'memory_type' then d.memory_type else m.memory_type end,
        tags = memory._check_tags(m.tags || d.tags),
        metadata = m.metadata || d.metadata,
        shared = coalesce(d.shared, m.shared),
        confidence = greatest(m.confidence, case
            when other_conversation then least(ceiling, 1 - (1 - m.confidence) * (1 - d.confidence))
            else d.confidence end),
        embedding = coalesce(m.embedding, d.embedding)
    where m.user_id = d.user_id and m.id = existing.id;
    perform set_config('memory.operation', '', true);
    insert into memory.usage as u (user_id, memory_id, uses, last_used_at)
    values (d.user_id, existing.id, 1, d.updated_at)
    on conflict (user_id, memory_id) do update
    set uses = u.uses + 1, last_used_at = greatest(u.last_used_at, excluded.last_used_at);
    return existing.id;
end;
$$;
comment on function memory._reinforce(memory.memories, jsonb) is
'Saves the same text again: one row, its tags united, metadata new over old, use counted, confidence raised. '
'Null if the row is no longer active.';

create or replace function memory._store(d memory.memories, item jsonb, share_by_default boolean, out id uuid, out status text)
language plpgsql volatile
set search_path from current
as $$
begin
    -- a row that is forgotten between the conflict and the reinforcement is saved anew
    for attempt in 1..5 loop
        insert into memory.memories as m (
            user_id, id, agent_id, content, memory_type, source, tags, confidence, shared,
            conversation_id, occurred_at, event_from, event_to, metadata, valid_from, state, content_hash, place, value, speaker, answers,
            version, created_at, updated_at, keywords, embedding)
        values (
            d.user_id, d.id, d.agent_id, d.content, d.memory_type, d.source, d.tags, d.confidence,
            coalesce(d.shared, _store.share_by_default),
            d.conversation_id, d.occurred_at, d.event_from, d.event_to, d.metadata, d.valid_from, d.state, d.content_hash, d.place, d.value, d.speaker, d.answers,
            d.version, d.created_at, d.updated_at, d.keywords, d.embedding)
        on conflict (user_id, agent_id, content_hash) where state = 'active' do nothing
        returning m.id into _store.id;
        if found then
            _store.status := 'saved';
            if d.embedding is null then
                insert into memory.embedding_queue (user_id, memory_id)
                values (d.user_id, _store.id)
                on conflict do nothing;
            end if;
            return;
        end if;
        _store.id := memory._reinforce(d, _store.item);
        if _store.id is not null then
            _store.status := 'reinforced';
            return;
        end if;
    end loop;
    perform memory._fail('MP012', 'the same text is saved and forgotten at the same time', 'Try again.');
end;
$$;
comment on function memory._store(memory.memories, jsonb, boolean) is
'Inserts a checked draft, or reinforces the active memory with the same text.';

create or replace function memory.save_list(
    user_id text,
    agent_id text,
    items jsonb,
    embeddings halfvec[] default null,
    share_by_default boolean default false
)
returns table (index integer, status text, id uuid, memory jsonb, code text, message text, hint text)
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    previous text[];
    zone text;
    count integer;
    drafts memory.memories[];
    ids uuid[];
    statuses text[];
    codes text[];
    messages text[];
    hints text[];
    first_place bigint;
    number integer;
    code_raised text;
    problem text;
    advice text;
    stored record;
    r record;
begin
    if jsonb_typeof(save_list.items) is distinct from 'array' or jsonb_array_length(save_list.items) = 0 then
        perform memory._fail('MP005', 'there is nothing to save', 'Pass a list of one to 100 items.');
    end if;
    count := jsonb_array_length(save_list.items);
    if count > memory._number('limits.list') then
        perform memory._fail('MP005', format('%s items; the limit is %s', count, memory._number('limits.list')),
            'Save them in several lists.');
    end if;
    if save_list.embeddings is not null and cardinality(save_list.embeddings) <> count then
        perform memory._fail('MP005', format('%s vectors for %s items', cardinality(save_list.embeddings), count),
            'Pass one vector, or null, for each item.');
    end if;
    previous := memory._enter_writing(save_list.user_id, save_list.agent_id);
    zone := memory._zone(save_list.user_id);
    drafts := array_fill(null::memory.memories, array[count]);
    ids := array_fill(null::uuid, array[count]);
    statuses := array_fill(null::text, array[count]);
    codes := statuses;
    messages := statuses;
    hints := statuses;

    for i in 1..count loop
        begin
            drafts[i] := memory._draft(
                save_list.user_id, save_list.agent_id, save_list.items -> (i - 1), save_list.embeddings[i], zone);
        exception when others then
            get stacked diagnostics problem = message_text, code_raised = returned_sqlstate, advice = pg_exception_hint;
            if code_raised not like 'MP%' then
                raise;
            end if;
            statuses[i] := 'error';
            codes[i] := code_raised;
            messages[i] := problem;
            hints[i] := advice;
        end;
    end loop;

    -- retries first: a key that was used answers with what it made
    for r in
        select g.i, save_list.items -> (g.i - 1) ->> 'idempotency_key' as key
        from generate_series(1, count) as g (i)
        where statuses[g.i] is null and save_list.items -> (g.i - 1) ->> 'idempotency_key' is not null
        order by key, g.i
    loop
        insert into memory.requests (user_id, agent_id, idempotency_key, content_hash, memory_id)
        values (save_list.user_id, save_list.agent_id, r.key, (drafts[r.i]).content_hash, (drafts[r.i]).id)
        on conflict (user_id, agent_id, idempotency_key) do nothing;
        if not found then
            select q.memory_id as id into stored
            from memory.requests as q
            where q.user_id = save_list.user_id and q.agent_id = save_list.agent_id
                and q.idempotency_key = r.key and q.content_hash = (drafts[r.i]).content_hash;
            if found then
                ids[r.i] := stored.id;
                statuses[r.i] := 'already saved';
            else
                statuses[r.i] := 'error';
                codes[r.i] := 'MP008';
                messages[r.i] := format('idempotency_key %L was used for another content', r.key);
                hints[r.i] := 'Use a new key for a new memory.';
            end if;
        end if;
    end loop;

    -- places: in the order of the list within each conversation, conversations in sorted order
    for r in
        select (drafts[g.i]).conversation_id as conversation_id, array_agg(g.i order by g.i) as members
        from generate_series(1, count) as g (i)
        where statuses[g.i] is null and not exists (
            select from memory.memories as m
            where m.user_id = save_list.user_id and m.agent_id = save_list.agent_id
                and m.content_hash = (drafts[g.i]).content_hash and m.state = 'active')
        group by 1
        order by 1
    loop
        if r.conversation_id is not null then
            first_place := memory._reserve_places(
                save_list.user_id, save_list.agent_id, r.conversation_id, cardinality(r.members));
        end if;
        for n in 1..cardinality(r.members) loop
            number := r.members[n];
            drafts[number].place := case
                when r.conversation_id is null then nextval('memory.conversation_numbers') * 1048576
                else first_place + n - 1 end;
        end loop;
    end loop;

    for r in
        select g.i from generate_series(1, count) as g (i)
        where statuses[g.i] is null
        order by (drafts[g.i]).content_hash, g.i
    loop
        -- a place of its own for what was a duplicate when places were given, and is not any more
        if (drafts[r.i]).place is null then
            drafts[r.i].place := nextval('memory.conversation_numbers') * 1048576;
        end if;
        begin
            select s.id, s.status into stored
            from memory._store(drafts[r.i], save_list.items -> (r.i - 1), save_list.share_by_default) as s;
            ids[r.i] := stored.id;
            statuses[r.i] := stored.status;
        exception when sqlstate 'MP005' then
            -- the united tags are too many
            get stacked diagnostics problem = message_text, advice = pg_exception_hint;
            statuses[r.i] := 'error';
            codes[r.i] := 'MP005';
            messages[r.i] := problem;
            hints[r.i] := advice;
            -- nothing was saved under its key: a retry is a new request
            delete from memory.requests as q
            where q.user_id = save_list.user_id and q.agent_id = save_list.agent_id
                and q.memory_id = (drafts[r.i]).id;
        end;
        if save_list.items -> (r.i - 1) ->> 'idempotency_key' is not null then
            update memory.requests as q
            set memory_id = ids[r.i]
            where q.user_id = save_list.user_id and q.agent_id = save_list.agent_id
                and q.idempotency_key = save_list.items -> (r.i - 1) ->> 'idempotency_key'
                and q.memory_id is distinct from ids[r.i];
        end if;
    end loop;

    return query
    select g.i - 1, statuses[g.i], coalesce(q.memory_id, ids[g.i]), case when m.id is not null then memory._as_json(m) end, codes[g.i], messages[g.i], hints[g.i]
    from generate_series(1, count) as g (i)
    left join memory.requests as q
        on q.user_id = save_list.user_id and q.agent_id = save_list.agent_id and statuses[g.i] <> 'error'
        and q.idempotency_key = save_list.items -> (g.i - 1) ->> 'idempotency_key'
    left join memory.memories as m
        on m.user_id = save_list.user_id and m.id = coalesce(q.memory_id, ids[g.i]) and statuses[g.i] <> 'error'
    order by g.i;
    perform memory._leave(previous);
end;
$$;
comment on function memory.save_list(text, text, jsonb, halfvec[], boolean) is
'Saves up to 100 items in one transaction, with a result per item: saved, reinforced (the text was there), already saved '
'(a retry with the same idempotency_key), or error with its code and reason; the other items are stored all the same.';

create or replace function memory.save(
    user_id text,
    agent_id text,
    content text,
    memory_type text default null,
    tags text[] default null,
    confidence double precision default null,
    source text default null,
    occurred_at timestamptz default null,
    conversation_id text default null,
    metadata jsonb default null,
    shared boolean default null,
    idempotency_key text default null,
    embedding halfvec default null
)
returns table (id uuid, status text, memory jsonb)
language plpgsql volatile
set search_path from current
as $$
#variable_conflict use_column
declare
    r record;
begin
    select s.status, s.id, s.memory, s.code, s.message, s.hint
    into r
    from memory.save_list(
        user_id => save.user_id,
        agent_id => save.agent_id,
        items => (select jsonb_build_array(jsonb_object_agg(field.key, field.value)) from jsonb_each(jsonb_build_object(
            'content', save.content, 'memory_type', save.memory_type, 'tags', to_jsonb(save.tags),
            'confidence', save.confidence, 'source', save.source,
            'occurred_at', to_char(save.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'conversation_id', save.conversation_id, 'metadata', save.metadata, 'shared', save.shared,
            'idempotency_key', save.idempotency_key)) as field where field.value <> 'null'),
        embeddings => array[save.embedding]) as s;
    if r.status = 'error' then
        perform memory._fail(r.code, r.message, r.hint);
    end if;
    id := r.id;
    status := r.status;
    memory := r.memory;
    return next;
end;
$$;
comment on function memory.save(
    text, text, text, text, text[], double precision, text, timestamptz, text, jsonb, boolean, text, halfvec) is
'Saves one memory. The same text again reinforces the memory that holds it. Without a vector it is found by keywords '
'until the server''s worker has embedded it. Default type fact, source conversation, time now.';
