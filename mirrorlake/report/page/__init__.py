"""The page's template, style and script, and what a template needs of each table.

What belongs here: words and order. What doesn't: figures (`mirrorlake.report.figures`), charts.
"""
