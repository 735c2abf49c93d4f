-- Time expressions. A text is cut into words once; rows of memory.time_words say what kind of word
-- each is (a weekday, a unit, "ago"), rows of memory.time_rules which kinds may stand together and
-- what that means. Both are looked up by equality, so a new expression is an insert, and no pattern
-- is compiled per row. All arithmetic is on local timestamps; zones matter at the entry points only.

create or replace function memory._time_text(input text)
returns text
language sql immutable parallel safe
return lower(translate(
    left(_time_text.input, 1000),
    '０１２３４５６７８９：／－．～〜—–−，、’‘週禮後個兩號點鐘時這節國慶聖誕復勞動兒歲結間當剛內屆從會說講過夏農曆陰廿臘閏開慶親婦學畢業愛幾來計劃將該讓還麼嗎預約帶點裡裏萬億間爲為陽春勝週賽燈軍權贖齋穌難獨體龍靈獻殘獲貞順惡歐護懺驚蟄種處',
    '0123456789:/-.~~---,,''''周礼后个两号点钟时这节国庆圣诞复劳动儿岁结间当刚内届从会说讲过夏农历阴廿腊闰开庆亲妇学毕业爱几来计划将该让还么吗预约带点里里万亿间为为阳春胜周赛灯军权赎斋稣难独体龙灵献残获贞顺恶欧护忏惊蛰种处'));
comment on function memory._time_text(text) is
'The part of a text in which times are looked for: its first 1,000 characters, lower case, full-width and traditional characters as their plain forms; of the same length.';

create or replace function memory._han_number(input text)
returns integer
language plpgsql immutable parallel safe
as $$
declare
    plain constant text := translate(_han_number.input, '〇零一二三四五六七八九两', '00123456789' || '2');
    total integer := 0;
    digit integer;
    sign text;
begin
    if length(plain) > 8 then
        return null;
    end if;
    if plain !~ '\D' then
        return case when length(plain) <= 6 then plain::integer end;
    end if;
    foreach sign in array string_to_array(plain, null) loop
        if sign between '0' and '9' and sign ~ '\d' then
            digit := sign::integer;
        elsif sign in ('廿', '卅') then
            total := total + case sign when '廿' then 20 else 30 end;
            digit := null;
        else
            total := total + coalesce(digit, 1) * case sign when '十' then 10 when '百' then 100 else 1000 end;
            digit := null;
        end if;
    end loop;
    return total + coalesce(digit, 0);
end;
$$;
comment on function memory._han_number(text) is 'A number in Chinese characters, read as digits (二〇二三) or by places (二十三).';

create or replace function memory._time_step(unit text, n integer)
returns interval
language sql immutable parallel safe
return case
    -- nothing that leaves the calendar
    when _time_step.n * case _time_step.unit when 'century' then 500 when 'decade' then 50 when 'year' then 5 else 1 end not between -9999 and 9999 then null
    else case _time_step.unit
    when 'minute' then make_interval(mins => _time_step.n)
    when 'hour' then make_interval(hours => _time_step.n)
    when 'day' then make_interval(days => _time_step.n)
    when 'week' then make_interval(days => 7 * _time_step.n)
    when 'weekend' then make_interval(days => 7 * _time_step.n)
    when 'workweek' then make_interval(days => 7 * _time_step.n)
    when 'fortnight' then make_interval(days => 14 * _time_step.n)
    -- a year and a half is loosely said: a year has 365 days
    when 'half month' then make_interval(hours => 365 * _time_step.n)
    when 'half year' then make_interval(hours => 4380 * _time_step.n)
    when 'month' then make_interval(months => _time_step.n)
    when 'quarter' then make_interval(months => 3 * _time_step.n)
    when 'half' then make_interval(months => 6 * _time_step.n)
    when 'year' then make_interval(years => _time_step.n)
    when 'decade' then make_interval(years => 10 * _time_step.n)
    when 'century' then make_interval(years => 100 * _time_step.n)
    end
end;
comment on function memory._time_step(text, integer) is 'So many of a unit as an interval.';

create or replace function memory._time_start(unit text, at timestamp)
returns timestamp
language sql immutable parallel safe
return case _time_start.unit
    when 'weekend' then date_trunc('week', _time_start.at) + interval '5 days'
    when 'workweek' then date_trunc('week', _time_start.at)
    when 'fortnight' then date_trunc('week', _time_start.at)
    when 'half month' then date_trunc('day', _time_start.at)
    when 'half year' then date_trunc('month', _time_start.at)
    when 'half' then date_trunc('year', _time_start.at)
        + case when extract(month from _time_start.at) > 6 then interval '6 months' else interval '0' end
    when 'decade' then date_trunc('year', _time_start.at)
        - make_interval(years => extract(year from _time_start.at)::integer % 10)
    when 'century' then date_trunc('year', _time_start.at)
        - make_interval(years => extract(year from _time_start.at)::integer % 100)
    else date_trunc(_time_start.unit, _time_start.at)
end;
comment on function memory._time_start(text, timestamp) is
'The start of the unit that holds a local time: weeks begin on Monday, decades and centuries with the year 0.';

create or replace function memory._time_date(year integer, month integer, day integer)
returns timestamp
language sql immutable parallel safe
return case
    when _time_date.year between 1 and 9999 and _time_date.month between 1 and 12
        and _time_date.day between 1 and 31
        and _time_date.day <= case
            when _time_date.month in (4, 6, 9, 11) then 30
            when _time_date.month <> 2 then 31
            when _time_date.year % 4 = 0 and (_time_date.year % 100 <> 0 or _time_date.year % 400 = 0) then 29
            else 28 end
    then make_timestamp(_time_date.year, _time_date.month, _time_date.day, 0, 0, 0)
end;
comment on function memory._time_date(integer, integer, integer) is 'A day, or null if there is none such between the years 1 and 9999.';

create or replace function memory._time_weekday(n integer, weekday integer, from_at timestamp, to_at timestamp)
returns timestamp
language sql immutable parallel safe
as $$
    select found.day
    from (
        select case
            when n > 0 then from_at + make_interval(days => (weekday - extract(isodow from from_at)::integer + 7) % 7 + 7 * (n - 1))
            else to_at - make_interval(days => (extract(isodow from to_at)::integer - weekday + 6) % 7 + 1 - 7 * (n + 1))
        end as day) as found
    where found.day >= from_at and found.day < to_at
$$;
comment on function memory._time_weekday(integer, integer, timestamp, timestamp) is
'The nth weekday (1 is Monday) of a span; a negative n counts from its end. Null if there is none.';

create or replace function memory._time_near(month integer, day integer, today timestamp, future boolean)
returns timestamp
language sql immutable parallel safe
as $$
    select found.at
    from generate_series(-8, 8) as i,
        lateral (select memory._time_date(extract(year from today)::integer + i, month, day) as at) as found
    where case when future then found.at >= today else found.at <= today end
    order by abs(extract(epoch from found.at - today))
    limit 1
$$;
comment on function memory._time_near(integer, integer, timestamp, boolean) is
'The day that is meant where no year is named: the last one up to today, or the next one from today on.';
