"""Databases and exports that earlier versions wrote. They open, go on and score with every later one."""
