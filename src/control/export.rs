//! A transcript in pieces, each a notification, before the answer: memory is bounded however long it is (R270).

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::{
    methods::{ExportParams, Exported, Format},
    outlet::Outlet,
    rpc::{self, Refusal},
    service::{Service, result, session},
};
use crate::{
    history::export::{Events, Markdown, ndjson},
    id::SessionId,
    limits::{EXPORT_PIECE_BYTES, REPLAY_PAGE_BYTES},
    store::{Reader, Row, Still, StoreError, Stored},
};

/// Of the notification that carries a piece.
const PIECE: &str = "export.piece";

#[derive(Serialize)]
struct Piece<'a> {
    text: &'a str,
}

/// Hands out a transcript as it stands; resolves behind the last piece.
pub async fn export(
    service: &Service,
    params: &ExportParams,
    outlet: &Outlet,
) -> io::Result<Result<Value, Refusal>> {
    let mut pages = match begun(service, params).await {
        Ok(pages) => pages,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut exported = Exported::default();
    loop {
        let (text, more);
        (pages, text, more) = match pages.next(service).await {
            Ok(next) => next,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for text in pieces(&text) {
            outlet.answer(&rpc::notification(PIECE, Piece { text })).await?;
            exported.pieces += 1;
            exported.bytes += text.len() as u64;
        }
        if !more {
            return Ok(result(exported));
        }
    }
}

async fn begun(service: &Service, params: &ExportParams) -> Result<Pages, Refusal> {
    let session = session(&params.id)?;
    let (wanted, format) = (session.clone(), params.format);
    let still = service.reader.hold_still().await;
    let begun = service.read(move |reader| {
        let row = reader.row(&wanted)?.ok_or_else(|| StoreError::Unknown(wanted.to_string()))?;
        let upto = *reader.latest().borrow();
        Ok(Pages { form: Form::new(format, &row), session: row.id, at: 0, upto, _still: still })
    });
    begun.await
}

/// Where an export stands.
struct Pages {
    form: Form,
    session: SessionId,
    at: i64,
    upto: i64,
    /// Rows do not move meanwhile.
    _still: Still,
}

impl Pages {
    /// The next page as text, and whether there is more.
    async fn next(mut self, service: &Service) -> Result<(Self, String, bool), Refusal> {
        let page = service.read(move |reader| {
            let (text, more) = self.page(reader)?;
            Ok((self, text, more))
        });
        page.await
    }

    fn page(&mut self, reader: &Reader) -> Result<(String, bool), StoreError> {
        let rows = reader.rows(Some(&self.session), self.at, self.upto, REPLAY_PAGE_BYTES)?;
        let mut out = Vec::new();
        rows.iter().for_each(|row| self.form.take(row, &mut out));
        let Some(last) = rows.last() else {
            self.form.finish(&mut out);
            return Ok((text(out), false));
        };
        self.at = last.number;
        Ok((text(out), true))
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The text in pieces that are not too long, cut between characters.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let piece = &text[..text.floor_char_boundary(EXPORT_PIECE_BYTES)];
        text = &text[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}

/// The form in which it is handed out.
enum Form {
    Ndjson,
    Events(Box<Events>),
    Markdown(Box<Markdown>),
}

impl Form {
    fn new(format: Format, row: &Row) -> Self {
        match format {
            Format::Ndjson => Self::Ndjson,
            Format::Events => Self::Events(Box::new(Events::new(&row.id))),
            Format::Markdown => Self::Markdown(Box::new(Markdown::new(row))),
        }
    }

    fn take(&mut self, row: &Stored, out: &mut Vec<u8>) {
        match self {
            Self::Ndjson => ndjson(row, out),
            Self::Events(events) => events.take(row, out),
            Self::Markdown(markdown) => markdown.take(row, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Ndjson => {}
            Self::Events(events) => events.finish(out),
            Self::Markdown(markdown) => markdown.finish(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let whole = "ä🦀".repeat(EXPORT_PIECE_BYTES / 2);
        let all: Vec<&str> = pieces(&whole).collect();
        assert!(all.len() > 2 && all.iter().all(|piece| piece.len() <= EXPORT_PIECE_BYTES));
        assert_eq!(all.concat(), whole);
        assert_eq!(pieces("").count(), 0);
    }
}
