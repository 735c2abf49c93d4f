-- Reading a text: words to kinds, kinds to times, the lowest level and then the longest rule first, until
-- no rule applies. Entry points: memory.parse_time, the window of a query, and memory.event_time, what a
-- memory speaks of.

create or replace function memory._time_read(
    input text, now_at timestamp, future boolean, statement boolean default false,
    out starts integer[], out ends integer[], out froms timestamp[], out tos timestamp[], out grains text[],
    out units text[], out words text[], out unknown integer, out ahead boolean)
language plpgsql stable parallel safe
as $$
declare
    kinds text[]; numbers integer[]; all_units text[]; opens integer[]; closes integer[]; pieces text[];
    number record;
    rule record;
    whole record;
    -- one word, and the run of words since the last unknown one
    kind text; n integer; unit text; from_at timestamp; to_at timestamp; grain text; raw text; start integer; until integer;
    ks text[] := '{^}'; ns integer[] := '{null}'; us text[] := '{null}';
    fs timestamp[] := '{null}'; ts timestamp[] := '{null}'; gs text[] := '{null}';
    ps integer[] := '{1}'; es integer[] := '{0}';
    ended boolean; useful boolean := false; i integer := 1; j integer; last integer; count_words integer; taken integer := 0;
begin
    select w.kinds, w.ns, w.units, w.starts, w.ends, w.raws, w.unknown into kinds, numbers, all_units, opens, closes, pieces, unknown
    from memory._time_pieces(_time_read.input) as w;
    words := kinds;
    count_words := coalesce(cardinality(kinds), 0);
    ahead := coalesce(future, 'plan' = any (kinds)
        or 'will' = any (kinds) and (statement or 'wh' = any (kinds) or input ~ '[?？]'), false);
    starts := '{}'; ends := '{}'; froms := '{}'; tos := '{}'; grains := '{}'; units := '{}';
    while i <= count_words + 1 loop
        kind := '?'; until := null;
        if i <= count_words and opens[i] <= taken then
            -- inside a longer word that was taken
            i := i + 1;
            continue;
        end if;
        if i <= count_words then
            kind := kinds[i]; n := numbers[i]; unit := all_units[i]; raw := pieces[i]; until := closes[i];
            from_at := null; to_at := null; grain := null; start := opens[i];
        end if;
        if kind = '#' then
            select * into number from memory._time_number(raw, now_at);
            kind := number.kind; n := number.n; unit := coalesce(number.unit, case when raw ~ '^\d\d$' then 'two' end);
            if number.day is not null then
                grain := kind; kind := 'S'; from_at := number.day; to_at := from_at + memory._time_step(grain, 1);
            end if;
        elsif kind = 'han' then
            start := opens[i];
            while i < count_words and kinds[i + 1] = 'han' and opens[i + 1] > taken and opens[i + 1] = until + 1 loop
                i := i + 1;
                raw := raw || pieces[i];
                until := closes[i];
            end loop;
            n := memory._han_number(raw);
            kind := case when n is null then '?' when n between 1000 and 2999 and raw !~ '[十百千]' then 'Y' else 'N' end;
            unit := case when raw ~ '^[〇零一二三四五六七八九]{2}$' then 'two' else 'han' end;
        elsif kind = 'rel' then
            grain := unit; kind := 'S'; unit := null;
            from_at := memory._time_start(grain, now_at) + memory._time_step(grain, n);
            to_at := from_at + case grain when 'weekend' then interval '2 days' else memory._time_step(grain, 1) end;
        elsif kind = '.' and right(ks[cardinality(ks)], 1) = 'x' then
            kind := 'skip';
        end if;
        ended := kind = '?' or (ascii(kind) > 96 and kind in ('ask', 'plan', 'will', 'wh', 'word'));
        if not ended or kind = '.' then
            if ascii(kind) between 65 and 90 or kind = 'now' then
                useful := true;
            end if;
            taken := until;
            if kind not in ('skip', '.') then
                ks := ks || kind; ns := ns || n; us := us || unit; fs := fs || from_at; ts := ts || to_at; gs := gs || grain;
                ps := ps || start; es := es || until;
            end if;
        end if;
        if ended or kind = '.' or cardinality(ks) > 24 then
            exit when cardinality(froms) >= 12;
            if useful then
                if kind = '.' or i > count_words then
                    last := es[cardinality(es)];
                    ks := ks || '$'::text; ns := ns || null::integer; us := us || null::text; fs := fs || null::timestamp;
                    ts := ts || null::timestamp; gs := gs || null::text; ps := ps || last + 1; es := es || last;
                end if;
                ks := memory._time_settle(ks, ahead);
                -- reduce: the lowest level first, then the longest, then the first
                for step in 1 .. 40 loop
                    last := cardinality(ks);
                    select r.meaning, r.arguments, r.parameter, r.result, s.i, s.i + s.size as after into rule
                    from (
                        select starting.i, sized.size, array_to_string(ks[starting.i : starting.i + sized.size - 1], ' ') as pattern
                        from generate_series(1, last) as starting (i),
                            generate_series(1, least(7, last - starting.i + 1)) as sized (size)) as s
                        join memory.time_rules as r on r.pattern = s.pattern
                    order by r.level, s.size desc, s.i
                    limit 1;
                    exit when not found;
                    select * into whole from memory._time_meaning(
                        rule.meaning, rule.parameter,
                        memory._pick(ns, rule.i, rule.arguments), memory._pick(us, rule.i, rule.arguments),
                        memory._pick(fs, rule.i, rule.arguments), memory._pick(ts, rule.i, rule.arguments),
                        memory._pick(gs, rule.i, rule.arguments), now_at, ahead);
                    if rule.result = 'S' and (whole.from_at is null or whole.to_at is null)
                        or rule.result <> 'S' and rule.result <> 'Dur' and whole.n is null then
                        rule.result := 'X';
                    end if;
                    j := rule.i;
                    ks := ks[: j - 1] || rule.result || ks[rule.after :];
                    ns := ns[: j - 1] || whole.n || ns[rule.after :];
                    us := us[: j - 1] || whole.unit || us[rule.after :];
                    fs := fs[: j - 1] || whole.from_at || fs[rule.after :];
                    ts := ts[: j - 1] || whole.to_at || ts[rule.after :];
                    gs := gs[: j - 1] || whole.grain || gs[rule.after :];
                    ps := ps[: j] || ps[rule.after :];
                    es := es[: j - 1] || es[rule.after - 1 :];
                end loop;
                for j in 1 .. cardinality(ks) loop
                    if ks[j] = 'S' and fs[j] < ts[j] and (fs[j] >= timestamp '0001-01-01' or fs[j] = '-infinity' and ts[j] < 'infinity')
                        and (ts[j] <= timestamp '9999-12-31' or ts[j] = 'infinity') then
                        starts := starts || ps[j]; ends := ends || es[j]; froms := froms || fs[j]; tos := tos || ts[j];
                        grains := grains || gs[j]; units := units || us[j];
                    end if;
                end loop;
            end if;
            ks := '{}'; ns := '{}'; us := '{}'; fs := '{}'; ts := '{}'; gs := '{}'; ps := '{}'; es := '{}';
            useful := false;
        end if;
        i := i + 1;
    end loop;
end;
$$;
comment on function memory._time_read(text, timestamp, boolean, boolean) is
'All times in a text, in its order: positions, local spans (an open side is infinite), grains; the kinds of its words, about how many are unknown, and whether it looks ahead.';

create or replace function memory.parse_time(
    text text, now timestamptz, time_zone text default 'UTC', future boolean default null,
    out window_from timestamptz, out window_to timestamptz, out matched text, out grain text,
    out is_future boolean, out asks boolean, out wide_from timestamptz, out wide_to timestamptz)
language plpgsql stable parallel safe
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
declare
    zone constant text := coalesce(parse_time.time_zone, 'UTC');
    now_at constant timestamp := parse_time.now at time zone zone;
    plain constant text := memory._time_text(coalesce(parse_time.text, ''));
    found record;
begin
    asks := false;
    if now_at is null or not isfinite(now_at) or extract(year from now_at) not between 100 and 9000 then
        return;
    end if;
    -- who asks what was said or planned then looks back
    select * into found from memory._time_read(plain, now_at, coalesce(parse_time.future,
        case when plain ~* '\m(did|told|said|was|were|had|asked|talked|mentioned)\M|曾|[说聊谈问讲提]过' then false end));
    if cardinality(found.froms) = 0 then
        return;
    end if;
    window_from := nullif(found.froms[1], '-infinity') at time zone zone;
    window_to := nullif(found.tos[1], 'infinity') at time zone zone;
    wide_from := window_from;
    wide_to := window_to;
    if found.units[1] ~ '^wi(de|thin) ' then
        wide_from := split_part(regexp_replace(found.units[1], '^\w+ ', ''), '|', 1)::timestamp at time zone zone;
        wide_to := split_part(found.units[1], '|', 2)::timestamp at time zone zone;
    end if;
    matched := substr(plain, found.starts[1], found.ends[1] - found.starts[1] + 1);
    grain := found.grains[1];
    is_future := found.froms[1] > now_at;
    -- it asks about that time: nothing else is said, or a question with a general verb and at most one subject
    asks := cardinality(found.froms) = 1 and (found.unknown = 0 and not found.words && '{ask,wh,plan,will}'
        or found.unknown <= 1 and found.words && '{ask,plan}' and (found.words && '{wh,plan}' or found.words[1] = 'ask'));
end;
$$;
comment on function memory.parse_time(text, timestamptz, text, boolean) is
'The time that a query speaks of, in English or Chinese, resolved against now in the time zone: the first expression in its first 1,000 characters. '
'window_from is inclusive, window_to exclusive; a null side is open, both null: no window. wide_from and wide_to are what a search should cover: '
'with the end that a range names, and looser where it is said loosely (two weeks ago). asks: the question is about that time, so the window filters; otherwise it '
'is a detail and only boosts. future: true for questions about plans, null finds out.';

create or replace function memory.event_time(
    content text, occurred_at timestamptz, time_zone text default 'UTC',
    out event_from timestamptz, out event_to timestamptz, out matched text)
language plpgsql stable parallel safe
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
declare
    zone constant text := coalesce(event_time.time_zone, 'UTC');
    now_at constant timestamp := event_time.occurred_at at time zone zone;
    plain constant text := memory._time_text(coalesce(event_time.content, ''));
    found record;
begin
    if now_at is null or not isfinite(now_at) or extract(year from now_at) not between 100 and 9000 then
        return;
    end if;
    -- here the tense decides, question or not
    select * into found from memory._time_read(plain, now_at, null, true);
    for i in 1 .. coalesce(cardinality(found.froms), 0) loop
        continue when found.froms[i] = '-infinity' or found.grains[i] = 'century'
            or found.tos[i] = 'infinity' and found.froms[i] >= now_at
            -- within ten years: of what is told, unless it looks ahead
            or found.units[i] like 'within %' and not found.ahead;
        event_from := found.froms[i] at time zone zone;
        -- since 2019: until it was said
        event_to := least(found.tos[i], case when found.tos[i] = 'infinity' then now_at end) at time zone zone;
        if found.units[i] like 'wide %' and found.grains[i] = 'span' then
            event_to := split_part(found.units[i], '|', 2)::timestamp at time zone zone;
        end if;
        matched := substr(plain, found.starts[i], found.ends[i] - found.starts[i] + 1);
        return;
    end loop;
end;
$$;
comment on function memory.event_time(text, timestamptz, text) is
'The time that a memory''s text speaks of ("next week I travel to Paris"), resolved against when it was said: the first one that is closed, or since then. '
'event_from is inclusive, event_to exclusive; both null: none. Will, going to, 打算 and the like make "on Friday" a coming one.';
