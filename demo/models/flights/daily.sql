---
description: What each carrier flew from New York on a day of December 2013, and how late
owner: team:demo
for:
  flown_on: TIMESERIES('2013-12-01', '2014-01-01', 'P1D')
---
SELECT
  f.carrier,
  a.name,
  COUNT(*) AS flights,
  COUNT_IF(f.dep_time IS NULL) AS cancelled,
  AVG(f.dep_delay) AS mean_delay,
  MAX(f.dep_delay) AS worst_delay
FROM nyc_nyc.flights AS f
JOIN nyc_nyc.airlines AS a ON a.carrier = f.carrier
WHERE DATE(f.time_hour) = flown_on
GROUP BY f.carrier, a.name
