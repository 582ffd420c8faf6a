"""What holds for every test: Hypothesis's deadline is off, because a busy machine is no defect of the code."""

from hypothesis import settings

settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")
