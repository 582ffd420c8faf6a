"""The command ``tidings``: every command of every installed part of Tidings under one name."""
