-- What a memory is, for every function that takes or shows one: how a draft is checked, how a row is
-- shown, and how its postings follow it.

create or replace function memory._as_json(m memory.memories)
returns jsonb
language sql stable parallel safe
as $$
    select jsonb_strip_nulls(jsonb_build_object(
    'id', m.id,
    'content', m.content,
    'memory_type', m.memory_type,
    'source', m.source,
    'tags', to_jsonb(m.tags),
    'confidence', round(m.confidence::numeric, 3),
    'confirmed_at', m.confirmed_at,
    'agent', m.agent_id,
    'shared', m.shared,
    'conversation_id', m.conversation_id,
    'occurred_at', m.occurred_at,
    'event_from', m.event_from,
    'event_to', m.event_to,
    'state', m.state,
    'valid_from', nullif(m.valid_from, m.occurred_at),
    'valid_to', m.valid_to,
    'superseded_by', m.superseded_by,
    'version', m.version,
    'embedded', case when m.embedding is null then false end,
    'created_at', m.created_at,
    'updated_at', m.updated_at))
    || case when m.metadata = '{}' then '{}' else jsonb_build_object('metadata', m.metadata) end
$$;
comment on function memory._as_json(memory.memories) is
'A memory as every reply shows it. Left out: fields without a value, valid_from where it is occurred_at, embedded where it is true.';

create or replace function memory._timestamp(what text, input text, time_zone text)
returns timestamptz
language plpgsql stable
as $$
begin
    if _timestamp.input is null then
        return null;
    end if;
    if _timestamp.input !~ '^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)' then
        raise invalid_datetime_format;
    end if;
    if _timestamp.input ~ '(Z|z|[+-]\d{2}(:?\d{2})?)$' and length(_timestamp.input) > 10 then
        return _timestamp.input::timestamptz;
    end if;
    return _timestamp.input::timestamp at time zone _timestamp.time_zone;
exception
    when invalid_datetime_format or datetime_field_overflow or invalid_parameter_value
        or invalid_time_zone_displacement_value then
        perform memory._fail('MP005', format('%s is not a time: %L', _timestamp.what, _timestamp.input),
            'Use ISO 8601, such as 2026-05-31 or 2026-05-31T18:30:00+02:00.');
end;
$$;
comment on function memory._timestamp(text, text, text) is
'Reads an ISO 8601 time; one without an offset is local to the time zone.';

create or replace function memory._zone(user_id text, time_zone text default null)
returns text
language sql stable
return coalesce(
    _zone.time_zone,
    (select u.time_zone from memory.users as u where u.user_id = _zone.user_id),
    'UTC');
comment on function memory._zone(text, text) is 'The time zone of a call: its argument, else the user''s, else UTC.';

create or replace function memory._check_types(memory_types text[])
returns void
language plpgsql stable
as $$
declare
    unknown text;
begin
    select given into unknown
    from unnest(_check_types.memory_types) as given
    where not exists (select from memory.memory_types as t where t.name = given)
    limit 1;
    if found then
        perform memory._fail('MP006', format('unknown memory_type %L', unknown),
            format('Use one of: %s.', (select string_agg(t.name, ', ' order by t.name) from memory.memory_types as t)));
    end if;
end;
$$;
comment on function memory._check_types(text[]) is 'Refuses a type that is not a row of memory.memory_types.';

create or replace function memory._check_source(source text)
returns void
language plpgsql stable
as $$
begin
    if not exists (select from memory.sources as s where s.name = _check_source.source) then
        perform memory._fail('MP006', format('unknown source %L', _check_source.source),
            format('Use one of: %s.', (select string_agg(s.name, ', ' order by s.name) from memory.sources as s)));
    end if;
end;
$$;
comment on function memory._check_source(text) is 'Refuses a source that is not a row of memory.sources.';

create or replace function memory._check_content(content text)
returns void
language plpgsql stable
as $$
begin
    if _check_content.content is null or _check_content.content !~ '[^[:space:]\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]' then
        perform memory._fail('MP005', 'content is empty', 'Say what is to be remembered.');
    end if;
    if length(_check_content.content) > memory._number('limits.content') then
        perform memory._fail('MP005',
            format('content has %s characters; the limit is %s', length(_check_content.content),
                memory._number('limits.content')),
            'Save the essence, or split it into several memories.');
    end if;
end;
$$;
comment on function memory._check_content(text) is 'Refuses content that is empty or too long.';

create or replace function memory._check_tags(tags text[])
returns text[]
language plpgsql stable
as $$
declare
    result text[];
    longest integer;
begin
    select array_agg(t.tag order by t.first_at), max(length(t.tag))
    into result, longest
    from (
        select given.tag, min(given.i) as first_at
        from unnest(_check_tags.tags) with ordinality as given (tag, i)
        group by given.tag) as t;
    if exists (select from unnest(_check_tags.tags) as tag where tag is null or btrim(tag) = '') then
        perform memory._fail('MP005', 'a tag is empty', 'Leave it out.');
    end if;
    if cardinality(result) > memory._number('limits.tags') then
        perform memory._fail('MP005',
            format('%s tags; the limit is %s', cardinality(result), memory._number('limits.tags')), 'Use fewer.');
    end if;
    if longest > memory._number('limits.tag') then
        perform memory._fail('MP005',
            format('a tag is longer than %s characters', memory._number('limits.tag')), 'Use a shorter one.');
    end if;
    return coalesce(result, '{}');
end;
$$;
comment on function memory._check_tags(text[]) is 'The distinct tags in their order; refuses too many, too long or empty ones.';

create or replace function memory._check_metadata(metadata jsonb)
returns void
language plpgsql stable
as $$
begin
    if jsonb_typeof(_check_metadata.metadata) <> 'object' then
        perform memory._fail('MP005', 'metadata is not an object', 'Pass a JSON object such as {"ticket": 7}.');
    end if;
    if octet_length(_check_metadata.metadata::text) > memory._number('limits.metadata') then
        perform memory._fail('MP005',
            format('metadata is larger than %s bytes', memory._number('limits.metadata')), 'Store less with the memory.');
    end if;
end;
$$;
comment on function memory._check_metadata(jsonb) is 'Refuses metadata that is no object or too large.';

create or replace function memory._check_embedding(embedding halfvec)
returns void
language plpgsql stable
set search_path from current
as $$
declare
    model memory.embedding_model;
begin
    if _check_embedding.embedding is null then
        return;
    end if;
    select m.only_row, m.name, m.dimensions, m.chosen_at into model from memory.embedding_model as m;
    if vector_dims(_check_embedding.embedding) <> model.dimensions then
        perform memory._fail('MP007',
            format('the vector has %s dimensions; this database holds vectors of %s with %s',
                vector_dims(_check_embedding.embedding), model.name, model.dimensions),
            'Embed with that model, or choose another for the whole database with memory.use_model.');
    end if;
    if l2_norm(_check_embedding.embedding) = 0 then
        perform memory._fail('MP007', 'the vector is zero', 'Pass null to have it embedded later.');
    end if;
end;
$$;
comment on function memory._check_embedding(halfvec) is
'Refuses a vector of other dimensions than the recorded model''s, or of length zero.';

create or replace function memory._draft(user_id text, agent_id text, item jsonb, embedding halfvec, time_zone text)
returns memory.memories
language plpgsql stable
set search_path from current
as $$
declare
    d memory.memories;
    s memory.sources;
    unknown text;
begin
    if jsonb_typeof(_draft.item) is distinct from 'object' then
        perform memory._fail('MP005', 'the item is not an object', 'Pass {"content": "…"}.');
    end if;
    select key into unknown
    from jsonb_object_keys(_draft.item) as key
    where key not in ('content', 'memory_type', 'tags', 'confidence', 'source', 'occurred_at',
        'conversation_id', 'metadata', 'shared', 'idempotency_key')
    limit 1;
    if found then
        perform memory._fail('MP005', format('unknown field %L', unknown), 'Remove it, or put it into metadata.');
    end if;

    d.user_id := _draft.user_id;
    d.id := memory._new_id();
    d.agent_id := _draft.agent_id;
    d.content := _draft.item ->> 'content';
    perform memory._check_content(d.content);
    d.memory_type := coalesce(_draft.item ->> 'memory_type', 'fact');
    perform memory._check_types(array[d.memory_type]);
    d.source := coalesce(_draft.item ->> 'source', 'conversation');
    perform memory._check_source(d.source);
    if jsonb_typeof(_draft.item -> 'tags') not in ('array', 'null') then
        perform memory._fail('MP005', 'tags is not a list', 'Pass a list of strings.');
    end if;
    d.tags := memory._check_tags(array(
        select jsonb_array_elements_text(coalesce(nullif(_draft.item -> 'tags', 'null'), '[]'))));

    select src.name, src.meaning, src.default_confidence, src.maximum_confidence, src.trust
    into s from memory.sources as src where src.name = d.source;
    begin
        d.confidence := (_draft.item ->> 'confidence')::real;
    exception when invalid_text_representation or numeric_value_out_of_range then
        d.confidence := -1;
    end;
    if d.confidence = 'NaN' or d.confidence not between 0 and 1 then
        perform memory._fail('MP005', format('confidence is not between 0 and 1: %s', _draft.item ->> 'confidence'),
            'Pass a share such as 0.8, or leave it out for the default of the source.');
    end if;
    d.confidence := least(coalesce(d.confidence, s.default_confidence), s.maximum_confidence);

    d.occurred_at := coalesce(
        memory._timestamp('occurred_at', _draft.item ->> 'occurred_at', _draft.time_zone), memory._now());
    d.valid_from := d.occurred_at;
    select t.event_from, t.event_to into d.event_from, d.event_to
    from memory.event_time(d.content, d.occurred_at, _draft.time_zone) as t;
    if _draft.item ->> 'conversation_id' is not null then
        d.conversation_id := _draft.item ->> 'conversation_id';
        perform memory._check_name('conversation_id', d.conversation_id);
    end if;
    d.metadata := coalesce(nullif(_draft.item -> 'metadata', 'null'), '{}');
    perform memory._check_metadata(d.metadata);
    if jsonb_typeof(_draft.item -> 'shared') not in ('boolean', 'null') then
        perform memory._fail('MP005', 'shared is neither true nor false', 'Pass true or false.');
    end if;
    d.shared := (_draft.item ->> 'shared')::boolean;
    if _draft.item ->> 'idempotency_key' is not null then
        perform memory._check_name('idempotency_key', _draft.item ->> 'idempotency_key');
    end if;
    perform memory._check_embedding(_draft.embedding);
    d.embedding := _draft.embedding;
    d.state := 'active';
    d.version := 1;
    d.value := memory.value_of(d.content);
    d.speaker := memory._speaker(d.content);
    d.answers := memory._answers(d.content);
    d.content_hash := memory._content_hash(d.content);
    d.keywords := memory._keywords(memory.indexed_text(d.content));
    d.created_at := memory._now();
    d.updated_at := d.created_at;
    return d;
end;
$$;
comment on function memory._draft(text, text, jsonb, halfvec, text) is
'Checks one item of a save and fills in the defaults. Its place, and whether it is shared if not given, are decided by the save.';
