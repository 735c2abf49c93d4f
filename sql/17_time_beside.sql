-- Meanings that count from another time than now, or combine two ways to count: the Monday before a
-- day, a week ago last Friday, the closest holiday, within three days.

create or replace function memory._time_beside(
    meaning text, parameter text, ns integer[], units text[], froms timestamp[], tos timestamp[], grains text[],
    now_at timestamp, future boolean,
    out n integer, out unit text, out from_at timestamp, out to_at timestamp, out grain text)
language plpgsql immutable parallel safe
as $$
declare
    today constant timestamp := date_trunc('day', now_at);
    sign constant integer := case when parameter like '-%' then -1 else 1 end;
    start timestamp := froms[3];
    stop timestamp := tos[3];
    at timestamp;
    width interval;
    weekday integer;
begin
    case meaning
    when 'away twice' then
        -- 2 years and 3 months ago
        grain := units[4];
        from_at := memory._time_start(grain, now_at + memory._time_step(units[2], sign * ns[1]) + memory._time_step(units[4], sign * ns[3]));
    when 'tens away' then
        -- 二十几年前: between thirty and twenty years ago
        if ns[1] % 10 = 0 and units[2] = 'some' then
            from_at := memory._time_start(units[3], now_at - memory._time_step(units[3], ns[1] + 10));
            to_at := memory._time_start(units[3], now_at - memory._time_step(units[3], ns[1])) + memory._time_step(units[3], 1);
            grain := 'span';
        end if;
    when 'weekday of week away' then
        -- Monday two weeks ago: the Monday of that week
        if units[3] in ('week', 'fortnight') then
            from_at := date_trunc('week', now_at + memory._time_step(units[3], sign * ns[2])) + make_interval(days => ns[1] - 1);
            grain := 'day';
        else
            select m.from_at, m.to_at, m.grain, m.unit into from_at, to_at, grain, unit
            from memory._time_relative('away', parameter, ns[2:2], array[null, units[3]], froms[4:4], tos, grains, now_at, future) as m;
        end if;
    when 'away from weekday' then
        -- a week ago last Friday, two days before last Friday
        select m.from_at into at
        from memory._time_relative('weekday of', null, array[coalesce(ns[3], sign), ns[4]], units, froms, tos, grains, now_at, future) as m;
        from_at := at + memory._time_step(units[2], sign * ns[1]);
        grain := 'day';
    when 'away from day' then
        -- a week ago yesterday; but after "3 days ago" another time is another one
        select m.from_at, m.to_at, m.grain, m.unit into from_at, to_at, grain, unit
        from memory._time_relative('away', parameter, ns, units,
            case when units[2] in ('week', 'fortnight', 'month', 'year') then froms end, tos, grains, now_at, future) as m;
    when 'weekday beside' then
        -- the Monday before 24 July, the first Friday after Easter
        if start is null then
            select s.from_at, s.to_at into start, stop
            from memory._time_span(units[3], today, null, null, future) as s;
        end if;
        if ns[2] is null and units[2] is distinct from 'weekday' then
            -- two times, and the first is no weekday
            from_at := froms[2]; to_at := tos[2]; grain := grains[2];
        else
            weekday := coalesce(ns[2], extract(isodow from froms[2])::integer);
            from_at := case
                when sign < 0 then memory._time_weekday(-1, weekday, start - interval '7 days', start)
                else memory._time_weekday(1, weekday, stop, stop + interval '7 days') end
                + make_interval(days => 7 * sign * (coalesce(ns[1], 1) - 1));
            grain := 'day';
        end if;
    when 'unit beside' then
        -- the week before 3 May: seven days; the weeks before it: three
        width := memory._time_step(units[1], case when ns[1] = 2 then 3 else 1 end);
        from_at := case when sign < 0 then froms[2] - width else tos[2] end;
        to_at := from_at + width;
        grain := units[1];
        if ns[3] <> -1 then
            -- next week before something: next week
            from_at := memory._time_start(grain, now_at) + memory._time_step(grain, ns[3]);
            to_at := null;
        elsif units[1] = 'weekend' then
            from_at := case when sign < 0 then date_trunc('week', froms[2]) - interval '2 days'
                else memory._time_weekday(1, 6, tos[2], tos[2] + interval '7 days') end;
            to_at := null;
        elsif grains[2] = 'day' and units[1] <> 'day' then
            -- or the calendar's week
            unit := case when sign < 0 then format('wide %s|%s', memory._time_start(units[1], from_at), to_at)
                else format('wide %s|%s', from_at, memory._time_start(units[1], to_at - interval '1 day') + memory._time_step(units[1], 1)) end;
        end if;
    when 'closest' then
        -- the second closest Monday to a day; a holiday has one a year
        select found.at into from_at
        from (
            select date_trunc('week', start) + make_interval(days => 7 * i + ns[2] - 1) as at
            from generate_series(-8, 8) as i
            where units[2] is null
            union all
            select memory._holiday(units[2], extract(year from start)::integer + i)
            from generate_series(-12, 12) as i
            where units[2] is not null) as found
        where found.at is not null
        order by abs(extract(epoch from found.at - start))
        offset coalesce(ns[1], 1) - 1
        limit 1;
        grain := 'day';
    when 'within' then
        -- within three days: from today on; who speaks of the past can mean those before
        from_at := today;
        to_at := case
            when ns[1] is null then null
            when parameter = 'month' and units[2] in ('month', 'half year') then date_trunc('month', now_at + memory._time_step(units[2], ns[1])) + interval '1 month'
            when units[2] in ('hour', 'minute') then now_at + memory._time_step(units[2], ns[1])
            else today + memory._time_step(units[2], ns[1])
                + case when units[2] in ('day', 'week') then interval '1 day' else interval '0' end end;
        unit := format('within %s|%s', today - memory._time_step(units[2], ns[1]), to_at);
        grain := 'span';
    when 'units of holiday' then
        -- 国庆节前三天
        select m.from_at, m.to_at, m.grain into from_at, to_at, grain
        from memory._time_span(units[3], today, null, null, future) as s,
            lateral memory._time_relative('first units', parameter, ns, units, array[null, null, s.from_at],
                array[null, null, s.to_at], array[null, null, 'day'], now_at, future) as m;
    when 'week of unit' then
        -- week 27 of last year
        at := memory._time_start('year', now_at) + make_interval(years => coalesce(ns[3], 0));
        if units[1] = 'week' and coalesce(units[4], 'year') = 'year' and ns[2] between 1 and 53 then
            from_at := memory._time_week(ns[2], at, at + interval '1 year');
            grain := 'week';
        elsif ns[3] is not null then
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_relative('number before unit', null, ns[2:4], units[2:4], froms, tos, grains, now_at, future) as m;
        end if;
    when 'part of unit' then
        -- the last week, the last Friday of last month
        select m.from_at, m.to_at, m.grain into at, to_at, grain
        from memory._time_relative('unit', null, ns[3:3], array[null, units[4]], froms, tos, grains, now_at, future) as m;
        if ns[1] <> -1 then
            from_at := at;
        else
            to_at := at + memory._time_step(grain, 1);
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_relative(case when units[2] is null then 'nth weekday' else 'nth unit' end, '-',
                array[1, ns[2], null], units, array[null, null, at], array[null, null, to_at], array[null, null, grain], now_at, future) as m;
        end if;
    when 'to weekday' then
        if grains[1] = 'week' then
            -- previous week - Monday
            from_at := froms[1] + make_interval(days => ns[2] - 1);
            grain := 'day';
        else
            -- from next Monday to Friday
            at := memory._time_weekday(1, ns[2], froms[1], froms[1] + interval '7 days');
            select r.from_at, r.to_at, format('wide %s|%s', r.from_at, r.wide_to) into from_at, to_at, unit
            from memory._time_range('range', parameter, null, array[units[1], 'weekday'],
                array[froms[1], at], array[tos[1], at + interval '1 day'], array[grains[1], 'day'], now_at, future) as r;
            grain := 'span';
        end if;
    when 'weekday of nth week' then
        -- the first week of October on Friday: the first Friday
        if units[2] = 'week' then
            from_at := memory._time_weekday(ns[1], ns[4], froms[3], tos[3]);
            grain := 'day';
        end if;
    when 'number before unit' then
        -- 3 past weeks; but 20 of next month, only 3 next week: one unit, and what is counted is days or other things
        if ns[3] > 1 or ns[1] = 1 then
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_relative('rolling units', 'up to', array[ns[2], ns[1], null], units, froms, tos, grains, now_at, future) as m;
        else
            grain := units[3];
            from_at := memory._time_start(grain, now_at) + memory._time_step(grain, ns[2]);
            if grain = 'month' and ns[1] between 1 and 31 then
                from_at := memory._time_date(extract(year from from_at)::integer, extract(month from from_at)::integer, ns[1]);
                grain := 'day';
            end if;
        end if;
    else
        select r.from_at, r.to_at, case when r.wide_to > r.to_at then 'wide ' || r.from_at || '|' || r.wide_to end
        into from_at, to_at, unit
        from memory._time_range(meaning, parameter, ns, units, froms, tos, grains, now_at, future) as r;
        grain := 'span';
    end case;
end;
$$;
comment on function memory._time_beside(text, text, integer[], text[], timestamp[], timestamp[], text[], timestamp, boolean) is
'The meanings of a row of memory.time_rules that count from another time than now, or in two ways.';
