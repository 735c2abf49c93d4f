-- Meanings that take a part of a span: its beginning, its evening, a clock time.

create or replace function memory._time_part(
    meaning text, parameter text, ns integer[], units text[], froms timestamp[], tos timestamp[], grains text[],
    now_at timestamp, future boolean,
    out n integer, out unit text, out from_at timestamp, out to_at timestamp, out grain text)
language plpgsql immutable parallel safe
as $$
declare
    today constant timestamp := date_trunc('day', now_at);
    part text[];
    at timestamp;
begin
    case meaning
    when 'oclock' then
        n := case when ns[1] > 24 then null when units[1] = 'half' then ns[1] * 60 + 30 else ns[1] % 12 * 60 + coalesce(ns[2], 0) end;
        unit := 'hour';
    when 'oclock zh' then
        n := case when ns[1] <= 24 then ns[1] * 60 + coalesce(ns[2], 0) end;
        unit := coalesce(parameter, case when ns[2] > 0 then 'minute' else 'hour' end);
    when 'half of day' then
        n := ns[1] % 720 + coalesce(ns[2], 0);
        unit := units[1];
    when 'day hours' then
        from_at := today + make_interval(days => ns[1], hours => split_part(coalesce(units[2], units[1]), '-', 1)::integer);
        to_at := today + make_interval(days => ns[1], hours => split_part(coalesce(units[2], units[1]), '-', 2)::integer);
        grain := 'hours';
    when 'part of year' then
        if units[1] = 'two' or ns[1] >= 1000 then
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_meaning('part now', 'year', ns, array[units[2]], array[null, null,
                memory._time_date(memory._time_year(ns[1], now_at), 1, 1)], tos, grains, now_at, future) as m;
        end if;
    when 'century part' then
        if units[2] = 'century' then
            from_at := memory._time_date(greatest((ns[1] - 1) * 100, 1), 1, 1);
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_meaning('part', null, null, array[units[3], null], array[null, from_at], array[null, from_at + interval '100 years'],
                array[null, 'century'], now_at, future) as m;
        elsif parameter = '+' then
            -- no century: in two weeks
            select m.from_at, m.to_at, m.grain, m.unit into from_at, to_at, grain, unit
            from memory._time_relative('away', '+', ns, units, froms[4:4], tos, grains, now_at, future) as m;
        end if;
    when 'hours clock' then
        from_at := today + make_interval(days => ns[1], mins => ns[2]
            + case when ns[2] < 720 and split_part(units[1], '-', 1)::integer >= 12 then 720 else 0 end);
        to_at := from_at + case units[2] when 'hour' then interval '1 hour' else interval '1 minute' end;
        grain := 'hours';
    when 'part' then
        -- units[1] is written as "month:1-10 year:1-3 week:1-3": which days of a month, months of a year …
        part := regexp_match(units[1], '\m' || grains[2] || ':(\d+)-(\d*)');
        unit := case grains[2] when 'month' then 'day' when 'week' then 'day' when 'weekend' then 'day' when 'year' then 'month'
            when 'quarter' then 'month' when 'decade' then 'year' when 'century' then 'year' end;
        from_at := froms[2] + coalesce(memory._time_step(unit, part[1]::integer - 1), interval '0');
        to_at := coalesce(froms[2] + memory._time_step(unit, nullif(part[2], '')::integer), tos[2]);
        grain := case when part is null then grains[2] else 'span' end;
        -- in a range, the beginning, the middle or the end is a moment
        unit := 'moment ' || case ns[1] when 1 then froms[2] when 3 then tos[2]
            else date_trunc('day', froms[2] + (tos[2] - froms[2]) / 2) end;
    when 'part now' then
        unit := coalesce(units[2], parameter, split_part(units[1], ':', 1));
        at := coalesce(froms[3], memory._time_start(unit, now_at));
        select m.from_at, m.to_at, m.grain into from_at, to_at, grain
        from memory._time_meaning('part', null, null, units[1:1] || null::text, array[null, at], array[null, at + memory._time_step(unit, 1)],
            array[null, unit], now_at, future) as m;
        unit := null;
    when 'holiday weekend' then
        select m.from_at, m.to_at, m.grain into from_at, to_at, grain
        from memory._time_meaning('weekend around', null, ns, units, array[memory._holiday(units[1], ns[3])],
            array[memory._holiday(units[1], ns[3]) + interval '1 day'], array['day'], now_at, future) as m;
    when 'weekend around' then
        if units[2] = 'weekend' and grains[1] = 'day' then
            from_at := date_trunc('week', froms[1] - case when extract(isodow from froms[1]) = 1 then interval '7 days' else interval '0' end) + interval '5 days';
            grain := 'weekend';
            to_at := from_at + case when extract(isodow from froms[1]) = 1 then interval '3 days' else interval '2 days' end;
        else
            from_at := froms[1]; to_at := tos[1]; grain := grains[1];
        end if;
    when 'hours' then
        -- units[2] is written as "18-24", hours of a day
        if grains[1] in ('day', 'span') and units[2] ~ '^\d+-\d+$' then
            from_at := froms[1] + make_interval(hours => split_part(units[2], '-', 1)::integer);
            to_at := froms[1] + make_interval(hours => split_part(units[2], '-', 2)::integer);
            grain := 'hours';
        end if;
    when 'afternoon' then
        -- ns[2] counts minutes since midnight; units[1] says which hours of the day are meant
        n := ns[2] + case when ns[2] < 720 and split_part(units[1], '-', 1)::integer >= 12 then 720 else 0 end;
        unit := units[2];
    when 'clock' then
        if grains[1] in ('day', 'hours') then
            from_at := date_trunc('day', froms[1]) + make_interval(mins => ns[2] * case when parameter = 'hours' then 60 else 1 end
                + case when grains[1] = 'hours' and ns[2] < 720 and extract(hour from froms[1]) >= 12 then 720 else 0 end);
            to_at := from_at + case units[2] when 'hour' then interval '1 hour' else interval '1 minute' end;
            grain := units[2];
        end if;
    else
        select m.n, m.unit, m.from_at, m.to_at, m.grain into n, unit, from_at, to_at, grain
        from memory._time_beside(meaning, parameter, ns, units, froms, tos, grains, now_at, future) as m;
    end case;
end;
$$;
comment on function memory._time_part(text, text, integer[], text[], timestamp[], timestamp[], text[], timestamp, boolean) is
'The meanings of a row of memory.time_rules that take a part of a span, or a clock time.';

-- Ranges and open ends. An open side is infinite inside the grammar and null outside.
create or replace function memory._time_range(
    meaning text, parameter text, ns integer[], units text[], froms timestamp[], tos timestamp[], grains text[],
    now_at timestamp, future boolean, out from_at timestamp, out to_at timestamp, out wide_to timestamp)
language plpgsql immutable parallel safe
as $$
declare
    today constant timestamp := date_trunc('day', now_at);
    -- the named end is the moment up to which it goes: "from Monday to Friday", as reference parsers read it
    up_to boolean := coalesce(parameter = 'up to'
        or parameter = 'up to yearless' and units[1] = 'yearless' and (froms[2] is null or units[2] = 'yearless'), false);
    starts timestamp := froms[1];
    width interval;
begin
    case meaning
    when 'since' then
        from_at := froms[1];
        to_at := 'infinity';
    when 'after' then
        from_at := tos[1];
        to_at := 'infinity';
    when 'until' then
        from_at := '-infinity';
        to_at := tos[1];
    when 'before' then
        from_at := '-infinity';
        to_at := froms[1];
    when 'by' then
        -- before a time to come: from today on
        from_at := case when froms[1] > now_at then today else '-infinity'::timestamp end;
        to_at := case when froms[1] > now_at then tos[1] else froms[1] end;
    when 'until now' then
        from_at := froms[1];
        to_at := today + interval '1 day';
        width := interval '1 day';
    when 'from now' then
        from_at := today;
        width := tos[1] - froms[1];
        to_at := width + case when units[1] = 'yearless'
            then memory._time_near(extract(month from froms[1])::integer, extract(day from froms[1])::integer, today, true)
            else froms[1] end;
    when 'years range' then
        from_at := memory._time_date(ns[1], 1, 1);
        to_at := memory._time_date(ns[2], 1, 1) + interval '1 year';
        width := interval '1 year';
    when 'range to year' then
        from_at := froms[1];
        to_at := memory._time_date(ns[2], 1, 1) + interval '1 year';
    when 'range from' then
        -- from the 3rd to 5 June: the number belongs to the unit of the end
        from_at := case grains[2]
            when 'day' then coalesce(memory._time_date(extract(year from froms[2])::integer, extract(month from froms[2])::integer, ns[1]))
            when 'month' then memory._time_date(extract(year from coalesce(froms[3], froms[2]))::integer, ns[1], 1)
            when 'year' then memory._time_date(ns[1], 1, 1) end;
        to_at := tos[2];
        width := tos[2] - froms[2];
        if grains[2] = 'day' and from_at > froms[2] then
            from_at := from_at - interval '1 month';
        elsif grains[2] = 'month' and froms[3] is not null then
            to_at := memory._time_near(extract(month from froms[2])::integer, 1, from_at, true) + interval '1 month';
        end if;
    when 'range to' then
        from_at := froms[1];
        width := case grains[1] when 'day' then interval '1 day' when 'month' then interval '1 month' when 'year' then interval '1 year' end;
        to_at := width + case grains[1]
            when 'day' then memory._time_date(extract(year from froms[1])::integer, extract(month from froms[1])::integer, ns[2])
            when 'month' then memory._time_date(extract(year from froms[1])::integer, ns[2], 1)
            when 'year' then memory._time_date(ns[2], 1, 1) end;
    when 'range' then
        -- numbers like 2008.03, and months after "between", are meant with the end
        up_to := up_to and coalesce(units[1], '') <> 'numeric'
            or coalesce(parameter = 'months' and grains[2] <> 'month', false);
        if up_to and units[1] like 'moment %' then
            starts := substr(units[1], 8)::timestamp;
        end if;
        width := case when grains[2] = 'month' then interval '1 month'
            when units[2] like 'moment %' then tos[2] - substr(units[2], 8)::timestamp
            else tos[2] - froms[2] end;
        from_at := starts;
        to_at := tos[2];
        if units[2] = 'weekday' and froms[2] < starts then
            -- Monday to Friday, asked on a Wednesday
            to_at := memory._time_weekday(1, extract(isodow from froms[2])::integer, starts, starts + interval '7 days') + width;
        elsif units[2] = 'yearless' and not (units[1] = 'yearless' and future) then
            -- the first such day or month from the start on
            to_at := memory._time_near(extract(month from froms[2])::integer, extract(day from froms[2])::integer, starts, true) + width;
        elsif units[1] = 'yearless' then
            from_at := memory._time_near(extract(month from starts)::integer, extract(day from starts)::integer, froms[2], false);
        end if;
    else
        null;
    end case;
    wide_to := to_at;
    if up_to then
        to_at := to_at - width;
    end if;
    if to_at <= from_at then
        -- from Monday to Monday: the end counts
        to_at := wide_to;
    end if;
    if to_at <= from_at then
        from_at := null;
        to_at := null;
    end if;
end;
$$;
comment on function memory._time_range(text, text, integer[], text[], timestamp[], timestamp[], text[], timestamp, boolean) is
'The meanings of a row of memory.time_rules that join two times or leave a side open. wide_to is the end with what is named as the end.';
