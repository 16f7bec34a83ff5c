//! The words of an nginx configuration, by the rules of nginx's own reader.
//!
//! A word ends at white space, `;` or `{`. It may be quoted, and then is followed by one of these or by `)`. A backslash
//! keeps the next character from meaning anything; `${` opens no block; `#` at the start of a word begins a comment.
//!
//! Ours and no crate's: those that are kept up to date build a tree for editing, on a handful of further crates, and
//! change it every few weeks. What is needed here are words with their lines.

use thiserror::Error;

/// One piece of a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Token {
    /// A name or an argument, without its quotes.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Why a text is no configuration.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{what}")]
pub(super) struct SyntaxError {
    /// Where, from 1.
    pub(super) line: usize,
    /// What nginx would stop at.
    pub(super) what: String,
}

/// Reads a text piece by piece.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the beginning of a text.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text: text.strip_prefix('\u{feff}').unwrap_or(text), at: 0, line: 1 }
    }

    /// The next piece and the line it begins in; None at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Token, usize)>, SyntaxError> {
        self.skip_space_and_comments();
        let line = self.line;
        let Some(first) = self.peek() else { return Ok(None) };
        let token = match first {
            b';' => Token::End,
            b'{' => Token::Open,
            b'}' => Token::Close,
            quote @ (b'"' | b'\'') => return self.quoted(quote).map(|word| Some((Token::Word(word), line))),
            _ => return Ok(Some((Token::Word(self.plain()), line))),
        };
        self.at += 1;
        Ok(Some((token, line)))
    }

    /// Goes behind the `}` that fits a `{` just read, whatever is in between: the block is in another language.
    pub(super) fn skip_foreign_block(&mut self) -> Result<(), SyntaxError> {
        let line = self.line;
        let mut depth = 1_usize;
        while let Some(byte) = self.bump() {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Ok(()),
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Err(SyntaxError { line, what: "this block has no end".into() })
    }

    fn skip_space_and_comments(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => while self.peek().is_some_and(|byte| byte != b'\n') && self.bump().is_some() {},
                byte if is_space(byte) => _ = self.bump(),
                _ => break,
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<String, SyntaxError> {
        let line = self.line;
        self.at += 1;
        let start = self.at;
        loop {
            match self.bump() {
                None => return Err(SyntaxError { line, what: "a quoted word has no end".into() }),
                Some(b'\\') => _ = self.bump(),
                Some(byte) if byte == quote => break,
                Some(_) => {}
            }
        }
        let word = unescaped(self.slice(start, self.at - 1));
        match self.peek() {
            None | Some(b';' | b'{' | b')') => Ok(word),
            Some(byte) if is_space(byte) => Ok(word),
            Some(_) => Err(SyntaxError {
                line: self.line,
                what: "a quoted word ends and the next begins without a space in between".into(),
            }),
        }
    }

    fn plain(&mut self) -> String {
        let start = self.at;
        let mut after_dollar = false;
        while let Some(byte) = self.peek() {
            if is_space(byte) || byte == b';' || (byte == b'{' && !after_dollar) {
                break;
            }
            after_dollar = byte == b'$' || (after_dollar && byte == b'{');
            self.bump();
            if byte == b'\\' {
                self.bump();
            }
        }
        unescaped(self.slice(start, self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    /// Words begin and end beside ASCII characters or at the end of the text, and so never within a character.
    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }
}

/// A word without the backslashes that nginx takes away: those before quotes, backslashes and `t`, `r`, `n`.
fn unescaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut characters = word.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.clone().next() {
            Some(quoted @ ('"' | '\'' | '\\')) => out.push(quoted),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('n') => out.push('\n'),
            _ => {
                out.push('\\');
                continue;
            }
        }
        characters.next();
    }
    out
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(Token, usize)>, SyntaxError> {
        let mut tokens = Tokens::new(text);
        std::iter::from_fn(|| tokens.next().transpose()).collect()
    }

    fn words(text: &str) -> Vec<String> {
        let word = |(token, _)| match token {
            Token::Word(word) => word,
            Token::End => ";".into(),
            Token::Open => "{".into(),
            Token::Close => "}".into(),
        };
        read(text).expect(text).into_iter().map(word).collect()
    }

    #[test]
    fn words_end_where_nginx_ends_them() {
        for (text, expected) in [
            ("gzip off;", &["gzip", "off", ";"][..]),
            ("location / { }", &["location", "/", "{", "}"]),
            ("location /{}", &["location", "/", "{", "}"]),
            ("a b# c\nd;", &["a", "b#", "c", "d", ";"]),
            ("a # b; }\n c;", &["a", "c", ";"]),
            ("a 'b; c' \"d { e\";", &["a", "b; c", "d { e", ";"]),
            ("a b'c'd;", &["a", "b'c'd", ";"]),
            ("a '';", &["a", "", ";"]),
            ("if ($a = \"b\") {", &["if", "($a", "=", "b", ")", "{"]),
            ("a ${b}c;", &["a", "${b}c", ";"]),
            ("a b}c;", &["a", "b}c", ";"]),
            (r#"a "b\"c" d\;e f\ g \h;"#, &["a", "b\"c", "d\\;e", "f\\ g", "\\h", ";"]),
            (r"a \\ \t;", &["a", "\\", "\t", ";"]),
            ("a \"x\ny\" 'it';", &["a", "x\ny", "it", ";"]),
            ("\u{feff}a;", &["a", ";"]),
            ("\u{e4} '\u{65e5}\u{672c}' \\\u{65e5};", &["\u{e4}", "\u{65e5}\u{672c}", "\\\u{65e5}", ";"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        assert!(read("a 'b").expect_err("no end").what.contains("no end"));
        let error = read("a\n'it''s';").expect_err("two words without a space");
        assert_eq!((error.line, error.what.contains("without a space")), (2, true));
    }

    #[test]
    fn lines_are_counted_in_comments_and_words_too() {
        let tokens = read("# one\na 'b\nc'\n\\\nd;").expect("words");
        let lines: Vec<usize> = tokens.into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [2, 2, 4, 5]);
    }

    #[test]
    fn a_block_in_another_language_is_left_out() {
        let mut tokens = Tokens::new("{ local t = { a = {} } -- it's\n } b;");
        assert_eq!(tokens.next(), Ok(Some((Token::Open, 1))));
        assert_eq!(tokens.skip_foreign_block(), Ok(()));
        assert_eq!(tokens.next(), Ok(Some((Token::Word("b".into()), 2))));
        assert!(Tokens::new("{ {}").skip_foreign_block().is_err());
    }

    proptest! {
        /// Whatever stands there, it comes to an end, and every line is one of the text's.
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n\r\t\u{e4}\u{65e5};{}#'\"\\\\$]{0,200}") {
            let lines = text.matches('\n').count() + 1;
            match read(&text) {
                Ok(tokens) => prop_assert!(tokens.iter().all(|(_, line)| (1..=lines).contains(line))),
                Err(error) => prop_assert!((1..=lines).contains(&error.line)),
            }
            let _ = Tokens::new(&text).skip_foreign_block();
        }

        /// What is quoted comes back as it was.
        #[test]
        fn a_quoted_word_is_that_word(word in "\\PC{0,40}", quote in "['\"]") {
            let escaped = word.replace('\\', r"\\").replace(&quote, &format!("\\{quote}"));
            prop_assert_eq!(words(&format!("a {quote}{escaped}{quote};")), ["a", &word, ";"]);
        }
    }
}
