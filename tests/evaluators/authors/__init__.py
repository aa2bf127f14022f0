"""Run folders in the layout of the InterIntent authors: made ones, real ones, and their figures anew."""
