//! Columns for people. A column that is empty in every row is left out.

use unicode_width::UnicodeWidthStr;

use super::style::Style;

const GAP: usize = 2;

/// A table under construction.
#[derive(Debug)]
pub(super) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// One row, with as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.header.len(), "every row has every column");
        self.rows.push(cells);
    }

    /// The whole table, a line for each row.
    pub fn render(&self, style: Style) -> String {
        let widths: Vec<usize> = (0..self.header.len()).map(|column| self.width(column)).collect();
        let header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        let mut text = style.bold(&line(&header, &widths)) + "\n";
        for row in &self.rows {
            text.push_str(&line(row, &widths));
            text.push('\n');
        }
        text
    }

    /// Zero for a column that is left out.
    fn width(&self, column: usize) -> usize {
        let widest = self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        if widest == 0 { 0 } else { widest.max(self.header[column].width()) }
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths).filter(|(_, width)| **width > 0) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', width + GAP - cell.width()));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R260: columns stand under each other, wide characters counted, and empty ones are gone.
    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&["ID", "NOTHING", "TITLE"]);
        table.row(vec!["a".into(), String::new(), "日本".into()]);
        table.row(vec!["日本".into(), String::new(), "b".into()]);
        assert_eq!(table.render(Style::default()), "ID    TITLE\na     日本\n日本  b\n");
    }
}
