"""How many points does a late submission lose? As many as the course's own plugin for nbgrader says."""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import AssignLatePenalties

from .student_rows import Sheet, on_sheet


class SaveLatePenalty(AssignLatePenalties):
    """nbgrader's AssignLatePenalties, without opening the gradebook again for every notebook."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        on_sheet(self, resources)
        sheet: Sheet = self.gradebook
        sheet.notebook.late_submission_penalty = None
        if sheet.seconds_late > 0:
            self.init_plugin()
            penalty = self.plugin_inst.late_submission_penalty(self.student_id, sheet.score, sheet.seconds_late)
            if penalty is not None:
                sheet.notebook.late_submission_penalty = self._check_late_penalty(sheet, penalty)
        return nb, resources
