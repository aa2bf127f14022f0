"""Databases and exports that earlier versions wrote. Every later version must open, continue and score
them.
"""
