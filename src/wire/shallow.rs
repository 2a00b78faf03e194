//! Finds `id` and `method` of a line that is too long to be kept, while it passes (R9).

/// Longest id or method remembered.
const VALUE_BYTES_MAX: usize = 512;

/// Looks at the top level of one JSON object, byte by byte, keeping nothing else.
#[derive(Debug, Default)]
pub struct Shallow {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The member at the top level whose value is passing.
    key: Vec<u8>,
    value: Vec<u8>,
    in_value: bool,
    id: Option<Vec<u8>>,
    method: Option<Vec<u8>>,
}

impl Shallow {
    /// Looks at the next bytes of the line.
    pub fn feed(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.byte(*b));
    }

    /// The id as written, when one passed.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// The method as written, quotes included, when one passed.
    pub fn method(&self) -> Option<&[u8]> {
        self.method.as_deref()
    }

    fn byte(&mut self, b: u8) {
        if self.in_string {
            self.keep(b);
            match b {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match b {
            b'"' => {
                self.in_string = true;
                self.keep(b);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.keep(b);
            }
            b'}' | b']' => self.close(b),
            b':' if self.depth == 1 && !self.in_value => self.in_value = true,
            b',' if self.depth == 1 => self.end_member(),
            _ => self.keep(b),
        }
    }

    fn close(&mut self, b: u8) {
        if self.depth == 1 {
            self.end_member();
        } else {
            self.keep(b);
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn keep(&mut self, b: u8) {
        let into = if self.in_value { &mut self.value } else { &mut self.key };
        if self.depth >= 1 && into.len() < VALUE_BYTES_MAX {
            into.push(b);
        }
    }

    fn end_member(&mut self) {
        let value = self.value.trim_ascii().to_vec();
        let key = self.key.strip_prefix(b"{").unwrap_or(&self.key).trim_ascii();
        match key {
            b"\"id\"" => self.id = Some(value),
            b"\"method\"" => self.method = Some(value),
            _ => {}
        }
        self.key.clear();
        self.value.clear();
        self.in_value = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(line: &str) -> (Option<String>, Option<String>) {
        let mut s = Shallow::default();
        line.as_bytes().chunks(3).for_each(|c| s.feed(c));
        let text = |v: Option<&[u8]>| v.map(|v| String::from_utf8_lossy(v).into_owned());
        (text(s.id()), text(s.method()))
    }

    /// R9: the id and the method of an over-long line are found wherever they stand.
    #[test]
    fn finds_id_and_method_on_the_top_level_only() {
        let body = r#""params":{"id":9,"method":"no","t":"a\"},{\\"}"#;
        let want = (Some("7".to_owned()), Some("\"session/prompt\"".to_owned()));
        assert_eq!(scan(&format!(r#"{{"id": 7,"method":"session/prompt",{body}}}"#)), want);
        assert_eq!(scan(&format!(r#"{{{body},"method":"session/prompt","id":7}}"#)), want);
        assert_eq!(scan(r#"{"result":[{"id":1}]}"#), (None, None));
    }
}
