"""What holds for every test of Hypothesis: no deadline, because a busy machine is no defect of the code, and the same
examples in each run, so that a change is judged by what it changed. `pytest --hypothesis-profile search` looks for new
examples instead."""

from hypothesis import settings

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("tidings")
