"""Every table of a report counted a second time, in plain Python.

``making`` plays games, lets made-up raters judge and answer what is asked about them, and has the report
made. All else here shares no code with what is counted: it reads the log as the service writes it, items as
they are asked, and what raters say, all as plain dictionaries.
"""
