---
description: Orders of each day, by the state in which they are now
owner: team:demo
for:
  ordered_on: TIMESERIES(DATE_SUB(CURRENT_DATE, 5), CURRENT_DATE, 'P1D')
  state: [new, paid, packed, shipped, returned, cancelled]
---
SELECT channel, COUNT(*) AS orders, SUM(total) AS revenue
FROM shop_shop.orders
WHERE DATE(created_at) = ordered_on AND status = state
GROUP BY channel
