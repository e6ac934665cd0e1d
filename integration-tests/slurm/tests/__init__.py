"""Tests that run against one bed; test.py brings it up."""
