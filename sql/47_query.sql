-- What a query says beside its words: #tag and type:name filter, and so does a quoted phrase. Where
-- nothing can match such a filter, it is read as words, and the reply says so.

create or replace function memory._places_with(user_id text, agent_id text, words text[], phrases text[])
returns bigint[]
language plpgsql stable
set search_path from current
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    places bigint[];
    wanted text;
begin
    foreach wanted in array _places_with.words loop
        -- the rarer the first word, the cheaper the rest; a tag is usually rarer than a word
        if places is null then
            places := array(
                select w.place from memory.words as w
                where w.user_id = _places_with.user_id and w.word = wanted
                    and w.agent_id in (_places_with.agent_id, '*'));
        else
            places := array(
                select given.place
                from unnest(places) as given (place)
                cross join lateral (
                    select from memory.words as w
                    where w.user_id = _places_with.user_id and w.word = wanted and w.place = given.place
                        and w.agent_id in (_places_with.agent_id, '*')
                    limit 1) as held);
        end if;
        exit when places = '{}';
    end loop;
    if cardinality(_places_with.phrases) > 0 and places <> '{}' then
        places := array(
            select m.place
            from memory.memories as m
            where m.user_id = _places_with.user_id and (m.agent_id = _places_with.agent_id or m.shared)
                and m.state = 'active' and m.place = any (places)
                and not exists (
                    select from unnest(_places_with.phrases) as phrase
                    where position(phrase in memory._lower(memory._fold(m.content))) = 0));
    end if;
    return places;
end;
$$;
comment on function memory._places_with(text, text, text[], text[]) is
'The places of active memories that hold every word (or #tag) and every phrase, given in folded lower case. '
'Null without any word to start from.';

create or replace function memory._read_query(
    user_id text, agent_id text, query text, filters memory.filters, time_zone text, read_time boolean)
returns memory.reading
language plpgsql stable
set search_path from current
as $$
#variable_conflict use_column
declare
    reading memory.reading;
    text text := left(_read_query.query, 40000);
    f memory.filters := _read_query.filters;
    named text[];
    phrases text[];
    places bigint[];
    spoken record;
begin
    reading.query := text;
    reading.notes := '{}';
    if text ~ '(^|\s)#[^\s#]' then
        named := array(select distinct t[1] from regexp_matches(text, '(?:^|\s)#([^\s#]+)', 'g') as t);
        places := memory._places_with(_read_query.user_id, _read_query.agent_id, array(select '#' || n from unnest(named) as n), '{}');
        if places = '{}' then
            reading.notes := reading.notes || format('no memory has all of the tags %s: searched as words', named);
        else
            f.tags := coalesce(f.tags, '{}') || named;
            reading.query := regexp_replace(reading.query, '(^|\s)#[^\s#]+', ' ', 'g');
        end if;
    end if;
    if text ~* '\mtype:\w' then
        named := array(select distinct lower(t[1]) from regexp_matches(text, '\mtype:(\w+)', 'gi') as t);
        if exists (select from unnest(named) as n where not exists (select from memory.memory_types as k where k.name = n)) then
            reading.notes := reading.notes || format('not all of %s are memory types: searched as words', named);
        else
            f.memory_types := case when f.memory_types is null then named
                else array(select n from unnest(named) as n where n = any (f.memory_types)) end;
            reading.query := regexp_replace(reading.query, '\mtype:\w+', ' ', 'gi');
        end if;
    end if;
    if text ~ '"[^"]+"|“[^”]+”|「[^」]+」' then
        phrases := array(
            select memory._lower(memory._fold(btrim(coalesce(t[1], t[2], t[3]))))
            from regexp_matches(text, '"([^"]+)"|“([^”]+)”|「([^」]+)」', 'g') as t
            where btrim(coalesce(t[1], t[2], t[3])) <> '');
        if cardinality(phrases) > 0 then
            places := memory._places_with(_read_query.user_id, _read_query.agent_id,
                array(
                    select t.word
                    from unnest(phrases) as p cross join lateral memory.tokens(p) as t
                    where t.word !~ ' '
                    group by t.word
                    order by length(t.word) desc
                    limit 8), phrases);
            if places = '{}' or places is null then
                reading.notes := reading.notes || format('no memory holds the phrase %s: searched for its words', phrases);
            else
                f.places := places;
            end if;
        end if;
    end if;
    if _read_query.read_time and f.since is null and f.until is null then
        -- what asks about a time is answered from that time; elsewhere a time is a detail that only raises
        select t.matched, t.wide_from, t.wide_to, t.asks, t.is_future into spoken
        from memory.parse_time(left(text, 1000), memory._now(), _read_query.time_zone) as t;
        if spoken.matched is not null then
            reading.matched := spoken.matched;
            reading.window_from := spoken.wide_from;
            reading.window_to := spoken.wide_to;
            if spoken.asks then
                f.since := spoken.wide_from;
                f.until := spoken.wide_to;
                f.events_only := spoken.is_future;
            end if;
        end if;
    end if;
    if btrim(reading.query) = '' then
        -- nothing but filters: their names are what is looked for
        reading.query := text;
    end if;
    -- a tag that few memories hold: those are compared exactly, however large the user is
    if f.tags is not null and cardinality(f.tags) > 0 then
        places := memory._places_with(_read_query.user_id, _read_query.agent_id, array(select '#' || t from unnest(f.tags) as t), '{}');
        if cardinality(places) <= 5000 then
            f.places := case when f.places is null then places
                else array(select p from unnest(places) as p where p = any (f.places)) end;
        end if;
    end if;
    reading.filters := f;
    return reading;
end;
$$;
comment on function memory._read_query(text, text, text, memory.filters, text, boolean) is
'Reads #tag, type:name, quoted phrases and a time that is asked about out of a query into filters. What cannot match anything is searched as words, with a note.';
