---
description: The seven days that end with a day, of each carrier
owner: team:demo
for:
  until_day: TIMESERIES('2013-12-07', '2014-01-01', 'P1W')
---
SELECT carrier, SUM(flights) AS flights, SUM(cancelled) AS cancelled
FROM flights.daily
WHERE flown_on BETWEEN DATE_SUB(until_day, 6) AND until_day
GROUP BY carrier
