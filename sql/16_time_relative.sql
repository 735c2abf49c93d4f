-- Meanings that count from now, or within a span: units, weekdays.

create or replace function memory._time_relative(
    meaning text, parameter text, ns integer[], units text[], froms timestamp[], tos timestamp[], grains text[],
    now_at timestamp, future boolean,
    out n integer, out unit text, out from_at timestamp, out to_at timestamp, out grain text)
language plpgsql immutable parallel safe
as $$
declare
    today constant timestamp := date_trunc('day', now_at);
    isodow constant integer := extract(isodow from now_at);
    sign constant integer := case when parameter like '-%' then -1 else 1 end;
    at timestamp;
    slack interval;
begin
    case meaning
    when 'unit', 'unit beyond' then
        grain := coalesce(parameter, units[2]);
        -- the week after next is two away
        from_at := memory._time_start(grain, now_at)
            + memory._time_step(grain, coalesce(ns[1], 0) * case meaning when 'unit' then 1 else 2 end);
    when 'away' then
        -- so many units from now; for weeks the parameter says whether a day or the week is meant
        grain := case
            when units[2] in ('quarter', 'half year') then 'month'
            when units[2] in ('decade', 'century') then 'year'
            when units[2] in ('week', 'fortnight', 'weekend') and parameter not like '%week' then 'day'
            else units[2] end;
        if froms[3] is null then
            from_at := memory._time_start(grain, now_at + memory._time_step(units[2], sign * ns[1]));
        else
            from_at := froms[3] + memory._time_step(units[2], sign * ns[1]);
            grain := 'day';
        end if;
        if units[2] = 'century' and sign > 0 and ns[1] between 10 and 30 then
            -- 在20世纪
            from_at := memory._time_date(ns[1] * 100 - 100, 1, 1);
            grain := 'century';
        elsif units[2] = 'half month' then
            -- two and a half months ago: somewhere in the month before, or in the month from then on
            at := now_at + memory._time_step(units[2], sign * ns[1]);
            to_at := now_at + memory._time_step(units[2], sign * (ns[1] + 2));
            from_at := date_trunc('day', least(at, to_at));
            to_at := date_trunc('day', greatest(at, to_at)) + interval '1 day';
            grain := 'span';
        end if;
    when 'length' then
        -- for 3 days from Monday
        from_at := froms[3];
        to_at := froms[3] + memory._time_step(units[2], ns[1]);
        grain := 'span';
    when 'this many' then
        from_at := memory._time_start(units[1], now_at);
        to_at := from_at + memory._time_step(units[1], ns[1]);
        grain := 'span';
    when 'units before' then
        to_at := memory._time_start(units[2], now_at);
        from_at := to_at - memory._time_step(units[2], ns[1]);
        grain := 'span';
    when 'units after' then
        from_at := memory._time_start(units[2], now_at) + memory._time_step(units[2], 1);
        to_at := from_at + memory._time_step(units[2], ns[1]);
        grain := 'span';
    when 'rolling back' then
        from_at := today - memory._time_step(units[2], ns[1]);
        if parameter = 'month' and units[2] in ('month', 'half year') then
            from_at := date_trunc('month', from_at);
        end if;
        to_at := today + interval '1 day';
        grain := 'span';
    when 'units of' then
        -- the last or next so many whole units
        at := memory._time_start(units[3], now_at);
        from_at := at + memory._time_step(units[3], case ns[1] when -1 then -ns[2] else ns[1] end);
        to_at := case when ns[1] = 0 and ns[2] > 1 then null else from_at + memory._time_step(units[3], ns[2]) end;
        grain := case when ns[2] = 1 then units[3] else 'span' end;
    when 'rolling units' then
        -- so many units up to today, or from today on
        if units[3] in ('hour', 'minute', 'second') then
            -- the minute in which it ends counts
            from_at := now_at + memory._time_step(units[3], least(ns[1], 0) * coalesce(ns[2], 1));
            to_at := from_at + memory._time_step(units[3], coalesce(ns[2], 1)) + interval '1 minute';
        elsif units[3] = 'quarter' then
            to_at := memory._time_start('quarter', now_at) + memory._time_step('quarter', case when ns[1] < 0 then 0 else 1 + coalesce(ns[2], 1) end);
            from_at := to_at - memory._time_step('quarter', coalesce(ns[2], 1));
        elsif ns[1] < 0 then
            from_at := today - memory._time_step(units[3], coalesce(ns[2], 1));
            to_at := today + case when parameter = 'up to' then interval '0' else interval '1 day' end;
        elsif parameter = 'half year' and units[3] = 'year' then
            -- 未来五年: years of 365 days, and the last day counts
            from_at := today;
            to_at := today + memory._time_step('half year', 2 * coalesce(ns[2], 1)) + interval '1 day';
        else
            from_at := today;
            to_at := today + memory._time_step(units[3], coalesce(ns[2], 1))
                + case when units[3] in ('day', 'week') then interval '1 day' else interval '0' end;
        end if;
        grain := 'span';
    when 'first units' then
        from_at := case
            when grains[3] = 'day' and parameter = '+ before' then froms[3] - memory._time_step(units[2], ns[1])
            when grains[3] = 'day' and parameter = '- after' then tos[3]
            when units[2] = 'week' and grains[3] in ('month', 'year', 'quarter')
                then memory._time_week(case when sign < 0 then -ns[1] else 1 end, froms[3], tos[3])
            when sign < 0 then tos[3] - memory._time_step(units[2], ns[1])
            else froms[3] end;
        to_at := from_at + memory._time_step(units[2], ns[1]);
        grain := 'span';
    when 'to date' then
        from_at := memory._time_start(units[1], now_at);
        to_at := today + case when parameter = 'up to' then interval '0' else interval '1 day' end;
        grain := 'span';
    when 'rest' then
        from_at := today;
        to_at := coalesce(tos[1], memory._time_start(units[1], now_at) + memory._time_step(units[1], 1));
        grain := 'span';
    when 'weekday' then
        from_at := today + make_interval(days => case
            when future then (ns[1] - isodow + 7) % 7 else -((isodow - ns[1] + 7) % 7) end);
        grain := 'day';
        unit := 'weekday';
    when 'weekday of' then
        from_at := case ns[1]
            when 0 then date_trunc('week', today) + make_interval(days => ns[2] - 1)
            when 1 then today + make_interval(days => (ns[2] - isodow + 6) % 7 + 1)
            else today - make_interval(days => (isodow - ns[2] + 6) % 7 + 1) end;
        grain := 'day';
    when 'weekday of week' then
        from_at := date_trunc('week', today) + make_interval(days => 7 * ns[1] + ns[2] - 1);
        grain := 'day';
    when 'weekday in' then
        from_at := froms[1];
        to_at := tos[1];
        grain := grains[1];
        if grains[1] = 'week' then
            from_at := froms[1] + make_interval(days => ns[2] - 1);
            to_at := null;
            grain := 'day';
        end if;
    when 'weekday away', 'weekday beyond' then
        -- Friday after next is the second
        from_at := today + sign * make_interval(days => 7 * case meaning when 'weekday beyond' then 1 else abs(ns[1]) - 1 end + 1
            + case when sign > 0 then (ns[2] - isodow + 6) % 7 else (isodow - ns[2] + 6) % 7 end);
        grain := 'day';
    when 'weekday and day' then
        -- "Tue 13th": the nearest month in which the day is that weekday
        select found.at into from_at
        from generate_series(-16, 16) as i,
            lateral (select today - make_interval(days => extract(day from today)::integer - 1) + make_interval(months => i) as at) as m,
            lateral (select memory._time_date(extract(year from m.at)::integer, extract(month from m.at)::integer, ns[2]) as at) as found
        where extract(isodow from found.at) = ns[1] and case when future then found.at >= today else found.at <= today end
        order by abs(extract(epoch from found.at - today))
        limit 1;
        grain := 'day';
    when 'nth weekday' then
        at := coalesce(froms[3], memory._time_start(units[4], now_at));
        from_at := memory._time_weekday(sign * ns[1], ns[2], at, coalesce(tos[3], at + memory._time_step(units[4], 1)));
        grain := 'day';
    when 'last weekday in' then
        if ns[1] = -1 and grains[3] not in ('day', 'hours') then
            from_at := memory._time_weekday(-1, ns[2], froms[3], tos[3]);
            grain := 'day';
        else
            from_at := froms[3]; to_at := tos[3]; grain := grains[3];
        end if;
    when 'last unit in' then
        if ns[1] = -1 then
            select m.from_at, m.to_at, m.grain into from_at, to_at, grain
            from memory._time_meaning('nth unit', '-', array[1, null, null], units, froms, tos, grains, now_at, future) as m;
        elsif grains[3] = 'day' then
            from_at := memory._time_start(units[2], froms[3]);
            grain := units[2];
        end if;
    when 'nth unit' then
        from_at := case
            when units[2] = 'week' then memory._time_week(sign * ns[1], froms[3], tos[3])
            when sign * ns[1] < 0 then tos[3] + memory._time_step(units[2], -ns[1])
            else froms[3] + memory._time_step(units[2], ns[1] - 1) end;
        if from_at < froms[3] and units[2] <> 'week' or from_at >= tos[3] then
            from_at := null;
        end if;
        grain := units[2];
    when 'unit around' then
        from_at := memory._time_start(units[1], froms[2]);
        grain := units[1];
    else
        select m.n, m.unit, m.from_at, m.to_at, m.grain into n, unit, from_at, to_at, grain
        from memory._time_part(meaning, parameter, ns, units, froms, tos, grains, now_at, future) as m;
    end case;
    if from_at is not null and to_at is null then
        to_at := from_at + case grain
            when 'weekend' then interval '2 days'
            when 'workweek' then interval '5 days'
            else memory._time_step(grain, 1) end;
    end if;
    if meaning = 'away' and from_at is not null
        and (units[1] = 'some' or froms[3] is null and grain = 'day' and units[2] in ('week', 'fortnight')) then
        -- a couple of months ago, two weeks ago, a few days before Christmas: loosely said
        slack := case when units[1] = 'some' and units[2] <> 'day' then memory._time_step(units[2], 1)
            when units[1] = 'some' then interval '2 days' else interval '3 days' end;
        unit := 'wide ' || from_at - slack || '|' || to_at + slack;
    end if;
end;
$$;
comment on function memory._time_relative(text, text, integer[], text[], timestamp[], timestamp[], text[], timestamp, boolean) is
'The meanings of a row of memory.time_rules that count from now or within a span.';
