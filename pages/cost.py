from pages.ui.frame import require_frame

require_frame()
