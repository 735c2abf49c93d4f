-- What a rule of the grammar means: one function, one branch per meaning. It gets what the parts of the
-- pattern carry, in the order that the rule's `arguments` name: ns (numbers), units (a unit; or how a
-- holiday, a season or a part is written), froms and tos (local, end exclusive), grains. It gives the
-- same for the whole. No from_at where a span is due: there is no such time, and the text has no window.

create or replace function memory._time_year(n integer, now_at timestamp)
returns integer
language sql immutable parallel safe
return case
    when _time_year.n >= 100 then _time_year.n
    when 2000 + _time_year.n > extract(year from _time_year.now_at) + 10 then 1900 + _time_year.n
    else 2000 + _time_year.n end;
comment on function memory._time_year(integer, timestamp) is 'A year of two digits in full: at most ten years from now.';

create or replace function memory._is_long_lunar_month(start timestamp)
returns boolean
language sql immutable parallel safe
return exists (
    select
    from generate_series(0, 1) as before, generate_series(1, 12) as month
    where memory._lunar_day(extract(year from start)::integer - before, month, 1) = start
        and memory._lunar_day(extract(year from start)::integer - before, month, 30) is not null);
comment on function memory._is_long_lunar_month(timestamp) is
'Whether the month of the Chinese lunar calendar that begins on a day has 30 days.';

create or replace function memory._time_week(n integer, from_at timestamp, to_at timestamp)
returns timestamp
language sql immutable parallel safe
return case
    when _time_week.n > 0 then memory._time_weekday(1, 1, _time_week.from_at, _time_week.to_at)
        + make_interval(days => 7 * (_time_week.n - 1))
    else date_trunc('week', memory._time_weekday(-1, 4, _time_week.from_at, _time_week.to_at))
        + make_interval(days => 7 * (_time_week.n + 1)) end;
comment on function memory._time_week(integer, timestamp, timestamp) is
'The nth week of a month or a year, from the end if n is negative: the first begins with the first Monday, the last has most of its days in it.';

create or replace function memory._time_meaning(
    meaning text, parameter text, ns integer[], units text[], froms timestamp[], tos timestamp[], grains text[],
    now_at timestamp, future boolean,
    out n integer, out unit text, out from_at timestamp, out to_at timestamp, out grain text)
language plpgsql immutable parallel safe
as $$
declare
    today constant timestamp := date_trunc('day', now_at);
    at timestamp;
begin
    -- counts that leave the calendar, and spans with an open side, mean nothing further
    if ns[1] > 9999 or ns[2] > 9999 or '-infinity' = any (froms) or 'infinity' = any (tos) then
        return;
    end if;
    case meaning
    when 'same' then
        n := ns[1]; unit := units[1]; from_at := froms[1]; to_at := tos[1]; grain := grains[1];
    when 'sum' then
        n := ns[1] + ns[2];
    when 'year in words' then
        n := case when parameter = '1000' and ns[1] in (1, 2) or parameter = '100' and ns[1] between 11 and 20
            then ns[1] * parameter::integer + ns[2] end;
    when 'date in words' then
        -- 25 January nineteen eighty-six
        if ns[1] between 11 and 20 then
            from_at := memory._time_date(ns[1] * 100 + ns[4], ns[2], ns[3]);
            grain := 'day';
        end if;
    when 'quarter' then
        from_at := memory._time_date(coalesce(memory._time_year(ns[1], now_at), extract(year from today)::integer), ns[2] * 3 - 2, 1);
        if ns[1] is null and from_at > today and not future then
            from_at := from_at - interval '1 year';
        end if;
        grain := 'quarter';
    when 'quarter in' then
        from_at := memory._time_date(extract(year from froms[1])::integer, ns[2] * 3 - 2, 1);
        grain := 'quarter';
    when 'holiday away' then
        from_at := memory._holiday(units[1], extract(year from now_at + memory._time_step(units[3], ns[2]))::integer);
        grain := 'day';
    when 'date' then
        from_at := memory._time_date(memory._time_year(ns[1], now_at), ns[2], ns[3]);
        grain := 'day';
    when 'year month' then
        from_at := memory._time_date(memory._time_year(ns[1], now_at), ns[2], 1);
        grain := 'month';
    when 'year' then
        from_at := memory._time_date(memory._time_year(ns[1], now_at), 1, 1);
        grain := 'year';
    when 'era year' then
        from_at := memory._time_date(ns[1] + ns[2], 1, 1);
        grain := 'year';
    when 'closest holiday' then
        n := ns[1]; unit := units[2];
    when 'with half' then
        -- two and a half years, 两个半月: in units of which there are whole ones
        if units[1] in ('year', 'month', 'week', 'decade') and ns[2] between 0 and 999 then
            n := case units[1]
                when 'year' then case parameter when 'half year' then 2 * ns[2] + 1 else 12 * ns[2] + 6 end
                when 'month' then 2 * ns[2] + 1
                when 'week' then 7 * ns[2] + 4 else 10 * ns[2] + 5 end;
            unit := case units[1]
                when 'year' then coalesce(parameter, 'month')
                when 'month' then 'half month'
                when 'week' then 'day' else 'year' end;
        end if;
    when 'months and half' then
        -- 两个半月: the half month came first
        if units[2] = 'day' and ns[2] = 15 and ns[1] < 999 then
            n := 2 * ns[1] + 1;
            unit := 'half month';
        end if;
    when 'year of two' then
        -- 98年 and 07年 are years; 15年 can be a duration
        if units[1] = 'two' and ns[1] not between 10 and 39 then
            from_at := memory._time_date(memory._time_year(ns[1], now_at), 1, 1);
            grain := 'year';
        end if;
    when 'year part', 'year part in' then
        -- the nth week, month or quarter of a year; without a year only a quarter
        at := coalesce(froms[1], memory._time_date(case when ns[1] is not null then memory._time_year(ns[1], now_at)
            else extract(year from now_at)::integer end, 1, 1));
        if units[3] = 'quarter' and ns[2] between 1 and 4 then
            from_at := at + make_interval(months => 3 * ns[2] - 3);
            grain := 'quarter';
        elsif (ns[1] is not null or froms[1] is not null) and units[3] = 'month' and ns[2] <= 12 then
            from_at := at + make_interval(months => ns[2] - 1);
            grain := 'month';
        elsif ns[1] is not null and units[3] = 'week' and ns[2] between 1 and 53 then
            from_at := memory._time_week(ns[2], at, at + interval '1 year');
            grain := 'week';
        end if;
    when 'quarter or century' then
        if units[3] = 'century' then
            from_at := memory._time_date(greatest(ns[2] * 100 - 100, 1), 1, 1);
            grain := 'century';
        elsif units[3] = 'quarter' and ns[2] between 1 and 4 then
            from_at := memory._time_date(extract(year from now_at)::integer, ns[2] * 3 - 2, 1);
            grain := 'quarter';
        end if;
    when 'decades' then
        if units[2] = 'century' then
            from_at := memory._time_date((ns[1] - 1) * 100 + ns[3], 1, 1);
            grain := 'decade';
        end if;
    when 'years' then
        from_at := memory._time_date(memory._time_year(ns[1], now_at) / 10 * 10, 1, 1);
        grain := 'decade';
    when 'century' then
        if units[2] = 'century' then
            from_at := memory._time_date(greatest(ns[1] * 100 - 100, 1), 1, 1);
            grain := 'century';
        end if;
    when 'month day' then
        if ns[2] > 31 and units[2] = 'two' then
            -- April of 87
            from_at := memory._time_date(memory._time_year(ns[2], now_at), ns[1], 1);
            to_at := from_at + interval '1 month';
            grain := 'month';
            return;
        end if;
        if parameter = 'bare' and units[2] = 'han' then
            -- 八月十五: without 日 or 号 the lunar day
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_meaning('lunar near', null, ns, units, froms, tos, grains, now_at, future) as m;
            return;
        end if;
        from_at := memory._time_near(ns[1], case parameter when 'text' then units[1]::integer else ns[2] end, today, future);
        grain := 'day';
        unit := 'yearless';
    when 'month' then
        from_at := memory._time_near(ns[1], 1, date_trunc('month', today), future);
        grain := 'month';
        unit := 'yearless';
    when 'date of' then
        -- this 5/12, next January 3
        at := memory._time_date(extract(year from today)::integer, ns[2],
            case parameter when 'text' then units[2]::integer else ns[3] end);
        from_at := case ns[1]
            when 0 then at
            when 1 then memory._time_near(ns[2], extract(day from at)::integer, today + interval '1 day', true)
            else memory._time_near(ns[2], extract(day from at)::integer, today - interval '1 day', false) end;
        grain := 'day';
    when 'month of' then
        from_at := case ns[1]
            when 0 then memory._time_date(extract(year from today)::integer, ns[2], 1)
            when 1 then memory._time_near(ns[2], 1, date_trunc('month', today) + interval '1 month', true)
            else memory._time_near(ns[2], 1, date_trunc('month', today) - interval '1 day', false) end;
        grain := 'month';
    when 'month in' then
        if parameter = 'bare' and units[3] = 'han' then
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_meaning('lunar in', null, ns, units, froms, tos, grains, now_at, future) as m;
            return;
        end if;
        if grains[1] = 'year' then
            from_at := memory._time_date(extract(year from froms[1])::integer, ns[2], coalesce(ns[3], 1));
            grain := case when ns[3] is null then 'month' else 'day' end;
        end if;
    when 'day in' then
        if grains[1] = 'month' then
            from_at := memory._time_date(extract(year from froms[1])::integer, extract(month from froms[1])::integer, ns[2]);
            grain := 'day';
        end if;
    when 'day in unit' then
        if units[2] = 'month' then
            at := memory._time_start('month', now_at) + make_interval(months => ns[1]);
            from_at := memory._time_date(extract(year from at)::integer, extract(month from at)::integer, ns[3]);
            grain := 'day';
        end if;
    when 'day of month' then
        select found.at into from_at
        from generate_series(-2, 2) as i,
            lateral (select today - make_interval(days => extract(day from today)::integer - 1) + make_interval(months => i) as at) as m,
            lateral (select memory._time_date(extract(year from m.at)::integer, extract(month from m.at)::integer, ns[1]) as at) as found
        where case when future then found.at >= today else found.at <= today end
        order by abs(extract(epoch from found.at - today))
        limit 1;
        grain := 'day';
    when 'span' then
        select s.from_at, s.to_at into from_at, to_at
        from memory._time_span(units[1], today, ns[2], coalesce(ns[4], extract(year from froms[3])::integer), future) as s;
        grain := case when units[1] like '% > %' then 'season' else 'day' end;
        unit := 'holiday';
    when 'lunar' then
        from_at := memory._lunar_day(coalesce(ns[1], extract(year from froms[1])::integer), ns[2], coalesce(ns[3], 1), coalesce(parameter = 'leap', false));
        grain := case when ns[3] is null then 'lunar month' else 'day' end;
    when 'lunar in' then
        from_at := memory._lunar_day(extract(year from froms[1])::integer, ns[2], coalesce(ns[3], 1));
        grain := case when ns[3] is null then 'lunar month' else 'day' end;
    when 'lunar near' then
        select s.from_at into from_at
        from memory._time_span(format('lunar %s-%s', ns[1], coalesce(ns[2], 1)), today, null, null, future) as s;
        grain := case when ns[2] is null then 'lunar month' else 'day' end;
    else
        select m.n, m.unit, m.from_at, m.to_at, m.grain into n, unit, from_at, to_at, grain
        from memory._time_relative(meaning, parameter, ns, units, froms, tos, grains, now_at, future) as m;
    end case;
    if from_at is not null and to_at is null then
        to_at := from_at + case grain
            when 'weekend' then interval '2 days'
            when 'workweek' then interval '5 days'
            -- whichever of the two the next month begins with
            when 'lunar month' then make_interval(days => 29 + memory._is_long_lunar_month(from_at)::integer)
            else memory._time_step(grain, 1) end;
    end if;
end;
$$;
comment on function memory._time_meaning(text, text, integer[], text[], timestamp[], timestamp[], text[], timestamp, boolean) is
'What the parts of an expression mean together: the meaning of a row of memory.time_rules, applied. The meanings are the branches of its body.';
