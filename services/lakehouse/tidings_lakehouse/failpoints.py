"""The points at which a test can kill the job, to prove that a crash there loses and duplicates nothing.

``TIDINGS_FAILPOINT=<point>:<n>`` ends the process with SIGKILL when it passes the point for the n-th time
(`tidings_envelope.fault_points`). The points stand behind every write: `survey`, `transactions`, `renames`, `staged:<table>`
(written, and not published), `log:<table>`, `current:<table>`, `quarantine`, `watermark`, `event:<table>`, `batch:<stream>`.
"""

from tidings_envelope.fault_points import Failpoint, failpoint_from

__all__ = ["Failpoint", "failpoint_from"]
