"""What is made of the mirror and of dlt's table."""

import dagster as dg


@dg.asset(
    deps=[dg.AssetKey(["clean", "shop", "shop", "orders"]), dg.AssetKey(["rates", "daily"])],
    group_name="reports",
)
def revenue(context: dg.AssetExecutionContext) -> None:
    """Orders in dollars, by day."""
    context.log.info("Here a query would join shop_shop__clean.orders with rates.daily")
