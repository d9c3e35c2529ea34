//! Text from the cluster made harmless for a terminal.

use std::fmt::Write as _;

/// Escapes control characters and the marks that reorder text, but keeps line breaks.
pub(crate) fn text(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

/// Escapes line breaks too.
pub(crate) fn line(text: &str) -> String {
    escaped(text, |_| false)
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        // Bidirectional overrides can make a name read as another one.
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match c {
            _ if keep(c) => result.push(c),
            '\n' => result.push_str("\\n"),
            '\t' => result.push_str("\\t"),
            '\r' => result.push_str("\\r"),
            _ if c.is_control() || reorders => {
                let _ = write!(result, "\\u{{{:x}}}", u32::from(c));
            }
            _ => result.push(c),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_spelled_out() {
        assert_eq!(line("a\u{1b}]0;x\u{7}b\u{9b}c\u{202e}d"), "a\\u{1b}]0;x\\u{7}b\\u{9b}c\\u{202e}d");
        assert_eq!(line("a\r\n\tb"), "a\\r\\n\\tb");
        assert_eq!(text("a\nb"), "a\nb");
    }

    #[test]
    fn letters_of_any_language_stay() {
        assert_eq!(line("naïve 節点 → ok"), "naïve 節点 → ok");
    }
}
