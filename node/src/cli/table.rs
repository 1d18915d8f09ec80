//! Tables for people: columns without lines, as narrow as what is in them.

use comfy_table::{ContentArrangement, Table, presets};

use super::print::Output;

/// Longest text in a cell.
const CELL_MAX: usize = 60;
/// Longest text in the last cell of a row: nothing that stands behind it is pushed away.
const LAST_MAX: usize = 300;

/// Prints rows under their headings; nothing but a sentence when there are none.
pub(crate) fn print(output: &mut Output, headings: &[&str], rows: Vec<Vec<String>>, none: &str) {
    if rows.is_empty() {
        return output.line(none);
    }
    for line in lines(headings, rows) {
        output.line(line);
    }
}

/// The line of the headings, and one per row; no line when there is no row.
pub(crate) fn lines(headings: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    // A column in which nothing stands is left out.
    let used: Vec<usize> =
        (0..headings.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let longest = |column: usize| if column + 1 == headings.len() { LAST_MAX } else { CELL_MAX };
    let pick = |row: &[String]| used.iter().map(|&column| cut(&row[column], longest(column))).collect::<Vec<_>>();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(used.iter().map(|&column| headings[column]));
    table.add_rows(rows.iter().map(|row| pick(row)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// A text on one line, shortened; what would move the cursor or change colours does not reach the terminal.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let text = text.replace(char::is_control, " ");
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
