//! A configuration as a tree of directives, each with its file and line.

use std::{fmt, sync::Arc};

use crate::check::nginx::tokens::{SyntaxError, Token, Tokens};

/// How deep blocks may lie in each other. nginx's own go four or five deep; this bounds the work of a hostile file.
const MAX_DEPTH: usize = 64;

/// How blocks are called whose content is another language's: `content_by_lua_block` and its kin.
const FOREIGN_BLOCK: &str = "_by_lua_block";

/// A line of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One directive, simple or with a block.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) place: Place,
    /// What is between its braces, if it has any.
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    /// The argument at an index, or nothing.
    pub(super) fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// What is between its braces.
    pub(super) fn items(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// A block that has not ended yet.
struct Unfinished {
    name: String,
    arguments: Vec<String>,
    line: usize,
    items: Vec<Directive>,
}

/// Reads a file's text.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut tokens = Tokens::new(text);
    let mut items = Vec::new();
    let mut open: Vec<Unfinished> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begun = 0;
    while let Some((token, line)) = tokens.next()? {
        let unexpected = |what: &str| Err(SyntaxError { line, what: what.into() });
        match token {
            Token::Word(word) => {
                if words.is_empty() {
                    begun = line;
                }
                words.push(word);
            }
            Token::End | Token::Open if words.is_empty() => return unexpected("a directive is expected before this"),
            Token::End => {
                let directive = directive(file, std::mem::take(&mut words), begun, None);
                open.last_mut().map_or(&mut items, |block| &mut block.items).push(directive);
            }
            Token::Open if words[0].ends_with(FOREIGN_BLOCK) => {
                tokens.skip_foreign_block()?;
                let directive = directive(file, std::mem::take(&mut words), begun, Some(Vec::new()));
                open.last_mut().map_or(&mut items, |block| &mut block.items).push(directive);
            }
            Token::Open if open.len() == MAX_DEPTH => return unexpected("blocks lie too deep in each other"),
            Token::Open => {
                let name = words.remove(0);
                open.push(Unfinished { name, arguments: std::mem::take(&mut words), line: begun, items: Vec::new() });
            }
            Token::Close if !words.is_empty() => return unexpected("a semicolon is missing before this brace"),
            Token::Close => {
                let Some(block) = open.pop() else { return unexpected("there is no block that this brace could end") };
                let place = Place { file: Arc::clone(file), line: block.line };
                let Unfinished { name, arguments, items: content, .. } = block;
                let directive = Directive { name, arguments, place, block: Some(content) };
                open.last_mut().map_or(&mut items, |block| &mut block.items).push(directive);
            }
        }
    }
    if !words.is_empty() {
        return Err(SyntaxError { line: begun, what: "the file ends before this directive does".into() });
    }
    match open.last() {
        Some(block) => Err(SyntaxError { line: block.line, what: "this block has no end".into() }),
        None => Ok(items),
    }
}

fn directive(file: &Arc<str>, mut words: Vec<String>, line: usize, block: Option<Vec<Directive>>) -> Directive {
    let name = words.remove(0);
    Directive { name, arguments: words, place: Place { file: Arc::clone(file), line }, block }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Directive>, SyntaxError> {
        parse(&"f".into(), text)
    }

    #[test]
    fn blocks_hold_directives() {
        let items = read("a 1;\nhttp {\n server { b 'x y'; }\n c; }\nd;").expect("a tree");
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["a", "http", "d"]);
        let http = items[1].items();
        assert_eq!((http[0].name.as_str(), http[1].name.as_str()), ("server", "c"));
        let b = &http[0].items()[0];
        assert_eq!((b.argument(0), b.argument(1), b.place.to_string().as_str()), ("x y", "", "f:3"));
        let lua = read("a_by_lua_block { if x then y() end } b;").expect("a tree");
        assert_eq!((lua.len(), lua[0].items().len()), (2, 0));
    }

    #[test]
    fn what_is_no_tree_is_refused_with_its_line() {
        for (text, line, words) in [
            ("a;\n;", 2, "expected before"),
            ("\n{", 2, "expected before"),
            ("a\n}", 2, "semicolon is missing"),
            ("a {\n}\n}", 3, "no block"),
            ("a;\nb {\nc;", 2, "no end"),
            ("a;\nb c", 2, "before this directive"),
            ("a 'b", 1, "quoted"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!((error.line, error.what.contains(words)), (line, true), "{text}: {error}");
        }
    }

    #[test]
    fn blocks_go_so_deep_and_no_deeper() {
        let nested = |depth: usize| "a {".repeat(depth) + &"}".repeat(depth);
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        assert!(read(&nested(MAX_DEPTH + 1)).expect_err("too deep").what.contains("too deep"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ab;{} \n'\"#\\\\$]{0,200}") {
            let _ = read(&text);
        }
    }
}
