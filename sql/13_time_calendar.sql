-- Calendars: Easter, the Chinese lunar calendar, and holidays, which are rows of memory.time_words whose
-- unit says how to find the day: 12-25 · 11/4#4 (fourth Thursday of November) · easter-2 · orthodox-2 ·
-- lunar 8-15 · lunar 0 (its new year's eve) · islamic 10-1 · hebrew+8 (days after the Jewish new year's
-- day), passover+49, kislev+24 · term 清明 · on 2008-2-5 2012-3-6 (days listed one by one).

create or replace function memory._easter(year integer)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    a constant integer := _easter.year % 19;
    b constant integer := _easter.year / 100;
    c constant integer := _easter.year % 100;
    h constant integer := (19 * a + b - b / 4 - (b - (b + 8) / 25 + 1) / 3 + 15) % 30;
    l constant integer := (32 + 2 * (b % 4) + 2 * (c / 4) - h - c % 4) % 7;
    m constant integer := (a + 11 * h + 22 * l) / 451;
begin
    return make_timestamp(_easter.year, (h + l - 7 * m + 114) / 31, (h + l - 7 * m + 114) % 31 + 1, 0, 0, 0);
end;
$$;
comment on function memory._easter(integer) is 'Easter Sunday of a year in the Gregorian calendar.';

create or replace function memory._lunar_day(year integer, month integer, day integer, leap boolean default false)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    -- from 1900, 7 hexadecimal digits a year: days from 1 January to the new year, the leap month (0: none),
    -- and a bit per month in order, the first lowest, set where it has 30 days and not 29
    years constant text :=
        '1e816d231007522600ea51c5164a2e0064b2200a9b18415562b0056a2000b59152175228007521d61b25'
        || '3000b252400a4b19514ab2c002ad210056b1620b692900da91f71d923200e922600d251b51a4d2e00a56'
        || '23002b617415b52b006d42000ea91621e922800e921d60d262f0052b2400a5719512d62c00b5a22006d4'
        || '1730ec929007491e716933100a93260052b1a60a5b2d00aad230056a1841b552b00ba42000b491521a93'
        || '2800a951c7152d2f005362400aad1a515aa2c005b22100ba51731d4a2a00d4a1e80a953000a972600556'
        || '1b60ab52d00ad523006d21840ea52b00ea5200064a1430c972700a9b1d7155a2f0056a2400b691a51752'
        || '2d00b522100b25164164b2900a4b1e814ab30002ad25005ad1b60b692e00da92300d921841d252b00d25'
        || '20a1a4d3200a5627002b61c605b52f006d52400ea91a51e922d00e922200d261630a562800a571e814d6'
        || '310035a25006d51b516c92e007492300693174152b2a0052b1f00a5b152155a270056a1c71b553000ba4'
        || '2500b491951a932c00a95210052d1640aad2800ab51e915aa31005d22600da51b61d4a2e00d4a2300c95'
        || '184152e2a005561f00ab515215b228006d21c60ea52f00725240064b1950c972b00cab210055a1630ad6'
        || '2900b691eb17523100b522600b251b61a4b2d00a4b22004ab175055b2a005ad1f00b6a1521b522800d92'
        || '1d71d252f00d252400a5519514ad2c004b620005b51630daa2900ec91f81e923100e922600d261b60a56'
        || '2d00a57220055617406d52a0075520007491430e9327006931c7152b2f0052b2300a5b195155a2c0056a'
        || '2100b65164174a2900b4a1e81a953100a95250052d1a60aad2d00ab523005aa1740ba52a00da52000d4a'
        || '1531c952700c961c7194e2f005562400ab519515b22c006d22100ea51740e4a280068b1d80c9730004ab'
        || '250055b1a60ad62d00b6a230075218417252a00b451f00a8b';
    coded integer;
    leap_month integer;
    months integer;
begin
    if _lunar_day.year not between 1900 and 2098 or _lunar_day.month not between 1 and 12
        or _lunar_day.day not between 1 and 30 then
        return null;
    end if;
    coded := ('x0' || substr(years, (_lunar_day.year - 1900) * 7 + 1, 7))::bit(32)::integer;
    leap_month := (coded >> 16) & 15;
    if _lunar_day.leap and leap_month <> _lunar_day.month then
        return null;
    end if;
    months := _lunar_day.month - 1
        + case when leap_month > 0 and (_lunar_day.month > leap_month or _lunar_day.leap) then 1 else 0 end;
    if _lunar_day.day = 30 and (coded >> months) & 1 = 0 then
        return null;
    end if;
    return make_timestamp(_lunar_day.year, 1, 1, 0, 0, 0) + make_interval(days => (coded >> 20)
        + 29 * months + length(replace((coded & ((1 << months) - 1))::bit(16)::text, '0', '')) + _lunar_day.day - 1);
end;
$$;
comment on function memory._lunar_day(integer, integer, integer, boolean) is
'The day of a date in the Chinese lunar calendar, 1900 to 2098; leap names the second of two months. Null if there is none such.';

create or replace function memory._solar_term(year integer, term text)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    terms constant jsonb := '{"小寒": [1, 6.11, 5.4055], "大寒": [1, 20.84, 20.12], "立春": [2, 4.6295, 3.87], "雨水": [2, 19.4599, 18.73],
        "惊蛰": [3, 6.3826, 5.63], "春分": [3, 21.4155, 20.646], "清明": [4, 5.59, 4.81], "谷雨": [4, 20.888, 20.1],
        "立夏": [5, 6.318, 5.52], "小满": [5, 21.86, 21.04], "芒种": [6, 6.5, 5.678], "夏至": [6, 22.2, 21.37],
        "小暑": [7, 7.928, 7.108], "大暑": [7, 23.65, 22.83], "立秋": [8, 8.35, 7.5], "处暑": [8, 23.95, 23.13],
        "白露": [9, 8.44, 7.646], "秋分": [9, 23.822, 23.042], "寒露": [10, 9.098, 8.318], "霜降": [10, 24.218, 23.438],
        "立冬": [11, 8.218, 7.438], "小雪": [11, 23.08, 22.36], "大雪": [12, 7.9, 7.18], "冬至": [12, 22.6, 21.94]}';
    term_of jsonb := terms -> _solar_term.term;
    y constant integer := _solar_term.year % 100;
begin
    if term_of is null or _solar_term.year not between 1901 and 2099 then
        return null;
    end if;
    return make_timestamp(_solar_term.year, (term_of ->> 0)::integer, floor(y * 0.2422
        + (term_of ->> case when _solar_term.year > 2000 then 2 else 1 end)::numeric)::integer
        - case when (term_of ->> 0)::integer <= 2 then (y - 1) / 4 else y / 4 end, 0, 0, 0);
end;
$$;
comment on function memory._solar_term(integer, text) is 'The day of a solar term, 1901 to 2099, by the usual approximation (a day off in a few years).';

create or replace function memory._holiday(day text, year integer)
returns timestamp
language plpgsql immutable parallel safe
as $$
declare
    part text[];
begin
    if _holiday.year is null or _holiday.year not between 623 and 9998 then
        return null;
    end if;
    if _holiday.day ~ '^\d+-\d+$' then
        return memory._time_date(_holiday.year, split_part(_holiday.day, '-', 1)::integer, split_part(_holiday.day, '-', 2)::integer);
    end if;
    part := regexp_match(_holiday.day, '^(easter|orthodox|hebrew|passover|kislev)([+-]\d+)?$');
    if part is not null then
        return case part[1]
            when 'easter' then memory._easter(_holiday.year)
            when 'orthodox' then memory._orthodox_easter(_holiday.year)
            else memory._hebrew_day(_holiday.year, part[1]) end
            + make_interval(days => coalesce(part[2]::integer, 0));
    end if;
    if _holiday.day ~ '^lunar \d+-\d+$' then
        part := string_to_array(substr(_holiday.day, 7), '-');
        return memory._lunar_day(_holiday.year, part[1]::integer, part[2]::integer);
    end if;
    if _holiday.day = 'lunar 0' then
        return memory._lunar_day(_holiday.year, 1, 1) - interval '1 day';
    end if;
    if _holiday.day ~ '^islamic \d+-\d+$' then
        part := string_to_array(substr(_holiday.day, 9), '-');
        return memory._islamic_day(_holiday.year, part[1]::integer, part[2]::integer);
    end if;
    if _holiday.day ~ '^on ' then
        return to_date(substring(_holiday.day from format('\m%s-\d+-\d+', _holiday.year)), 'YYYY-MM-DD')::timestamp;
    end if;
    if _holiday.day ~ '^term ' then
        return memory._solar_term(_holiday.year, substr(_holiday.day, 6));
    end if;
    part := regexp_match(_holiday.day, '^(\d+)/(\d)#(-?\d)([+-]\d+)?$');
    if part is null then
        return null;
    end if;
    return memory._time_weekday(part[3]::integer, part[2]::integer,
            make_timestamp(_holiday.year, part[1]::integer, 1, 0, 0, 0),
            make_timestamp(_holiday.year, part[1]::integer, 1, 0, 0, 0) + interval '1 month')
        + make_interval(days => coalesce(part[4]::integer, 0));
end;
$$;
comment on function memory._holiday(text, integer) is 'The day of a holiday in a year; null where its calendar does not reach. How days are written: the top of this file.';

create or replace function memory._time_span(
    days text, today timestamp, relation integer, year integer, future boolean, out from_at timestamp, out to_at timestamp)
language sql immutable parallel safe
as $$
    -- one holiday, or "first > last", the last exclusive: a season, the school holidays
    select found.from_at, found.to_at
    -- days listed one by one can be the only ones
    from generate_series(case when days like 'on %' then -24 else -4 end, case when days like 'on %' then 24 else 4 end) as i,
        lateral (select
            memory._holiday(split_part(days, ' > ', 1), coalesce(year, extract(year from today)::integer) + i) as from_at) as start,
        lateral (select start.from_at, case
            when days not like '% > %' then start.from_at + interval '1 day'
            else (
                select stop.at
                from generate_series(0, 1) as j,
                    lateral (select memory._holiday(split_part(days, ' > ', 2), extract(year from start.from_at)::integer + j) as at) as stop
                where stop.at > start.from_at
                order by stop.at
                limit 1) end as to_at) as found
    where case
        when year is not null then i = 0
        when relation = -1 then found.to_at <= today
        when relation = 1 then found.from_at > today
        when relation = 0 and days not like '% > %' then i = 0
        when relation = 0 or future then found.to_at > today
        else found.from_at <= today end
    order by abs(extract(epoch from found.from_at - today))
    limit 1
$$;
comment on function memory._time_span(text, timestamp, integer, integer, boolean) is
'The holiday or season that is meant: of a year, or last (-1), this (0), next (1), or else the latest that has begun, or the coming one in a question about plans.';
