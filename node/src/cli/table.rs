//! Tables for people: columns without lines, as narrow as what is in them.

use comfy_table::{ContentArrangement, Table, presets};

use super::print::Output;

/// Longest text in a cell.
const CELL_MAX: usize = 60;

/// Prints rows under their headings; nothing but a sentence when there are none.
pub(crate) fn print(output: &mut Output, headings: &[&str], rows: Vec<Vec<String>>, none: &str) {
    if rows.is_empty() {
        return output.line(none);
    }
    // A column in which nothing stands is left out.
    let used: Vec<usize> =
        (0..headings.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let pick = |row: &[String]| used.iter().map(|&column| cut(&row[column])).collect::<Vec<_>>();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(used.iter().map(|&column| headings[column]));
    table.add_rows(rows.iter().map(|row| pick(row)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.lines() {
        output.line(line.trim_end());
    }
}

/// A text on one line, shortened.
pub(crate) fn cut(text: &str) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    match text.char_indices().nth(CELL_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
