//! Tables as kubectl's: upper-case headers, columns three spaces apart.

use super::escape;

/// A table to be.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self { headers: headers.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: a cell a column. What the cluster wrote into them is escaped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<_> = cells.into_iter().map(|cell| escape::line(&cell)).collect();
        debug_assert_eq!(row.len(), self.headers.len(), "a cell a column");
        self.rows.push(row);
    }

    /// As text, each line ended and begun by `indent`.
    pub(crate) fn render(&self, headers: bool, indent: &str) -> String {
        let header: Vec<_> = self.headers.iter().map(|&header| header.to_owned()).collect();
        let lines: Vec<&Vec<String>> = headers.then_some(&header).into_iter().chain(&self.rows).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.headers.len()).map(width).collect();
        let mut text = String::new();
        for line in lines {
            let mut row = String::from(indent);
            for (cell, width) in line.iter().zip(&widths) {
                row.push_str(cell);
                row.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 3));
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_three_spaces_apart_and_lines_have_no_tail() {
        let mut table = Table::new(&["NAME", "AGE"]);
        table.row(["worker-1".to_owned(), "5d3h".to_owned()]);
        table.row(["a\u{1b}b".to_owned(), String::new()]);
        assert_eq!(table.render(true, ""), "NAME       AGE\nworker-1   5d3h\na\\u{1b}b\n");
        assert_eq!(table.render(false, "  "), "  worker-1   5d3h\n  a\\u{1b}b\n");
    }
}
