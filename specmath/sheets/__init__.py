"""Tables and the files they become: CSV and XLSX, with values or with live formulas."""
