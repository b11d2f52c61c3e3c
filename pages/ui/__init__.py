"""What the pages share: the scenario's state, widgets made from fields, page furniture."""
