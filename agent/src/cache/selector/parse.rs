//! Label selectors as people type them: the syntax of `kubectl get -l`.

use super::{Expression, Operator, Selector};

/// Why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Something else was to come here.
    #[error("found {found:?}, expected {expected}")]
    Unexpected {
        /// What is there; empty at the end.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Not a label key.
    #[error(
        "{0:?} is not a label key: an optional DNS prefix and `/`, then at most 63 of letters, digits, `-`, `_`, `.`"
    )]
    Key(String),
    /// Not a label value.
    #[error(
        "{0:?} is not a label value: at most 63 of letters, digits, `-`, `_`, `.`, beginning and ending with a letter or digit"
    )]
    Value(String),
    /// `>` and `<` compare whole numbers.
    #[error("{0:?} is not a whole number, which `>` and `<` compare with")]
    Number(String),
}

impl Selector {
    /// Reads a selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, `a>1`, `a<1`, joined by
    /// commas. Nothing selects everything.
    ///
    /// # Errors
    ///
    /// What the API server would refuse, too.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { tokens: tokens(text), next: 0 };
        let mut expressions = Vec::new();
        if parser.peek().is_some() {
            expressions.push(parser.expression()?);
            while parser.peek().is_some() {
                parser.expect(",", "`,` or the end")?;
                expressions.push(parser.expression()?);
            }
        }
        expressions.sort();
        expressions.dedup();
        Ok(Self { expressions })
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = symbol.map_or_else(
            || rest.find(|next: char| next.is_whitespace() || "=!(),><".contains(next)).unwrap_or(rest.len()),
            |symbol| symbol.len(),
        );
        let (token, tail) = rest.split_at(length);
        tokens.push(token);
        rest = tail.trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn unexpected<T>(found: Option<&str>, expected: &'static str) -> Result<T, ParseError> {
        Err(ParseError::Unexpected { found: found.unwrap_or_default().to_owned(), expected })
    }

    fn expect(&mut self, symbol: &str, expected: &'static str) -> Result<(), ParseError> {
        match self.take() {
            Some(token) if token == symbol => Ok(()),
            found => Self::unexpected(found, expected),
        }
    }

    fn expression(&mut self) -> Result<Expression, ParseError> {
        if self.peek() == Some("!") {
            self.next += 1;
            let key = self.key()?;
            return Ok(Expression { key, operator: Operator::DoesNotExist, values: Vec::new() });
        }
        let key = self.key()?;
        let operator = match self.peek() {
            None | Some(",") => return Ok(Expression { key, operator: Operator::Exists, values: Vec::new() }),
            Some("=" | "==" | "in") => Operator::In,
            Some("!=" | "notin") => Operator::NotIn,
            Some(">") => Operator::Gt,
            Some("<") => Operator::Lt,
            found => return Self::unexpected(found, "an operator: =, ==, !=, in, notin, > or <"),
        };
        let set = matches!(self.take(), Some("in" | "notin"));
        let values = if set { self.set()? } else { vec![self.value()?] };
        let numeric = matches!(operator, Operator::Gt | Operator::Lt);
        if let Some(value) = values.iter().find(|value| numeric && value.parse::<i64>().is_err()) {
            return Err(ParseError::Number(value.to_string()));
        }
        Ok(Expression { key, operator, values })
    }

    fn key(&mut self) -> Result<Box<str>, ParseError> {
        match self.take() {
            Some(token) if is_key(token) => Ok(token.into()),
            Some(token) if !SYMBOLS.contains(&token) => Err(ParseError::Key(token.to_owned())),
            found => Self::unexpected(found, "a label key"),
        }
    }

    /// A single value; the empty one is legal, as in `a=` and `a in ()`.
    fn value(&mut self) -> Result<Box<str>, ParseError> {
        match self.peek() {
            None | Some("," | ")") => Ok("".into()),
            Some(token) if is_value(token) => {
                self.next += 1;
                Ok(token.into())
            }
            Some(token) if !SYMBOLS.contains(&token) => Err(ParseError::Value(token.to_owned())),
            found => Self::unexpected(found, "a label value"),
        }
    }

    fn set(&mut self) -> Result<Vec<Box<str>>, ParseError> {
        self.expect("(", "`(`")?;
        let mut values = vec![self.value()?];
        loop {
            match self.take() {
                Some(")") => break,
                Some(",") => values.push(self.value()?),
                found => return Self::unexpected(found, "`,` or `)`"),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

fn is_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_value(name) && prefix.is_none_or(is_subdomain)
}

fn is_value(text: &str) -> bool {
    let middle = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(middle) && ends(bytes.first()) && ends(bytes.last())
}

fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(legal) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<(String, Operator, Vec<String>)> {
        let owned = |expression: Expression| {
            let values = expression.values.iter().map(ToString::to_string).collect();
            (expression.key.to_string(), expression.operator, values)
        };
        Selector::parse(text).unwrap().expressions.into_iter().map(owned).collect()
    }

    fn one(key: &str, operator: Operator, values: &[&str]) -> Vec<(String, Operator, Vec<String>)> {
        vec![(key.to_owned(), operator, values.iter().map(ToString::to_string).collect())]
    }

    #[test]
    fn each_form_of_kubectl_is_read() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        assert_eq!(parse(""), vec![]);
        assert_eq!(parse("pool=web"), one("pool", In, &["web"]));
        assert_eq!(parse(" pool == web "), one("pool", In, &["web"]));
        assert_eq!(parse("pool!=web"), one("pool", NotIn, &["web"]));
        assert_eq!(parse("pool"), one("pool", Exists, &[]));
        assert_eq!(parse("!pool"), one("pool", DoesNotExist, &[]));
        assert_eq!(parse("! pool"), one("pool", DoesNotExist, &[]));
        assert_eq!(parse("pool in (web, db,web)"), one("pool", In, &["db", "web"]));
        assert_eq!(parse("pool notin (web)"), one("pool", NotIn, &["web"]));
        assert_eq!(parse("cores>4"), one("cores", Gt, &["4"]));
        assert_eq!(parse("cores < 4"), one("cores", Lt, &["4"]));
        assert_eq!(parse("node-role.kubernetes.io/worker="), one("node-role.kubernetes.io/worker", In, &[""]));
        assert_eq!(parse("in in (in)"), one("in", In, &["in"]));
        assert_eq!(parse("a in (,b)"), one("a", In, &["", "b"]));
        assert_eq!(parse("a in ()"), one("a", In, &[""]), "the empty value");
    }

    #[test]
    fn several_must_all_hold() {
        let selector = Selector::parse("pool=web,zone notin (a),!old").unwrap();
        let labels = |pairs: &[(&str, &str)]| pairs.iter().copied().collect();
        assert!(selector.matches(&labels(&[("pool", "web")])));
        assert!(selector.matches(&labels(&[("pool", "web"), ("zone", "b")])));
        assert!(!selector.matches(&labels(&[("pool", "web"), ("zone", "a")])));
        assert!(!selector.matches(&labels(&[("pool", "web"), ("old", "")])));
        assert!(!selector.matches(&labels(&[])));
    }

    #[test]
    fn the_order_of_requirements_does_not_matter() {
        assert_eq!(Selector::parse("b=2,a=1"), Selector::parse("a=1,b=2"));
    }

    #[test]
    fn what_kubectl_refuses_is_refused() {
        for text in [
            ",",
            "a,",
            ",a",
            "=",
            "a=b=c",
            "a b",
            "a in",
            "a in b",
            "a in (b",
            "a in (b c)",
            "!a=b",
            "a>x",
            "a>",
            "(a)",
            "a=b)",
            "a==(b)",
            "-a=b",
            "a=-b",
            "a=b-",
            "a/b/c=d",
            "A.B/c=d",
            "/a=b",
            "a/=b",
            "a=b;c",
            "a=$(reboot)",
        ] {
            assert!(Selector::parse(text).is_err(), "{text:?} was accepted");
        }
        assert!(Selector::parse(&format!("a={}", "x".repeat(64))).is_err());
    }

    #[test]
    fn a_refusal_says_what_was_found_and_what_would_be_right() {
        let said = |text| Selector::parse(text).unwrap_err().to_string();
        assert_eq!(said("a b"), r#"found "b", expected an operator: =, ==, !=, in, notin, > or <"#);
        assert_eq!(said("a in (b"), r#"found "", expected `,` or `)`"#);
    }
}
