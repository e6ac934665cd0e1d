"""Tests that run against one cluster; test.py brings it up."""
