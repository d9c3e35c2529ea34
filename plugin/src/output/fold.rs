//! Long lines, folded between words for a narrow terminal.

/// Narrower than this a terminal folds better by itself.
const NARROWEST: usize = 40;

/// The text with its lines folded at this width; what a line goes on with stands a little to the right of its beginning.
pub(crate) fn fold(text: &str, width: usize) -> String {
    if width < NARROWEST {
        return text.to_owned();
    }
    text.split('\n').map(|line| fold_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn fold_line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let words = line.trim_start_matches(' ');
    let margin = line.len() - words.len();
    let hanging = if margin == 0 { 0 } else { margin + 2 };
    format!("{}{}", " ".repeat(margin), hang(words, width, margin, hanging))
}

/// Words that begin at this column, folded at this width; each line that follows begins at column `hanging`.
pub(crate) fn hang(words: &str, width: usize, mut column: usize, hanging: usize) -> String {
    let mut folded = String::new();
    for (place, word) in pieces(words).into_iter().enumerate() {
        let length = word.chars().count();
        if place > 0 && column + 1 + length > width {
            folded.push('\n');
            folded.push_str(&" ".repeat(hanging));
            column = hanging;
        } else if place > 0 {
            folded.push(' ');
            column += 1;
        }
        folded.push_str(&word);
        column += length;
    }
    folded
}

/// What is not broken: words, and commands to copy, up to what ends a part of the sentence. A command that is too long for a
/// line is left to the terminal, which gives it back whole when it is copied.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_command = false;
    for word in text.split(' ') {
        match pieces.last_mut().filter(|_| in_command) {
            Some(command) => {
                command.push(' ');
                command.push_str(word);
            }
            None => pieces.push(word.to_owned()),
        }
        in_command |= word.trim_start_matches(['(', '\'', '"']) == "kubectl";
        in_command &= !word.ends_with([';', ',', ')', ':', '.']);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_go_on_below_between_words() {
        let text = "BLOCKERS\n  NoRoom: Node a: there is no room for shop/web anywhere\n      → raise limits.cpu of NodePool general to 16 at least\n";
        let folded = "BLOCKERS\n  NoRoom: Node a: there is no room for\n    shop/web anywhere\n      → raise limits.cpu of NodePool\n        general to 16 at least\n";
        assert_eq!(fold(text, 40), folded);
        assert!(folded.lines().all(|line| line.chars().count() <= 40));
        assert_eq!(fold(text, 80), text);
    }

    #[test]
    fn a_word_is_never_broken_and_a_very_narrow_terminal_is_left_to_itself() {
        let long = format!("  see {} there", "x".repeat(50));
        assert_eq!(fold(&long, 40), format!("  see\n    {}\n    there", "x".repeat(50)));
        assert_eq!(fold(&long, 39), long);
    }

    #[test]
    fn a_command_to_copy_is_never_broken() {
        let text = "Interrupted. Go on with: kubectl rotate node worker-1, or leave it as it is";
        assert_eq!(fold(text, 45), "Interrupted. Go on with:\nkubectl rotate node worker-1, or leave it as\nit is");
        let long = "End it with: kubectl rotate cancel 4f0c2a9b1e --kubeconfig /a/b";
        assert_eq!(fold(long, 40), "End it with:\nkubectl rotate cancel 4f0c2a9b1e --kubeconfig /a/b");
    }

    #[test]
    fn columns_that_fit_stay_as_they_are() {
        let row = "  evict    shop/web-1   cpu 500m";
        assert_eq!(fold(row, 40), row);
    }
}
