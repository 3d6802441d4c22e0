"""YAML that remembers its lines.

What belongs here: text → plain values, and what is wrong with them at which line. What doesn't:
what the file means (`sections`), and opening it (`load`).
"""
