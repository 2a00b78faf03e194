//! What is said on one connection: answers in the order of the requests, and streams between them.
//!
//! Owns the streams that the operator began; they end with it. A stream waits for its reader and for nothing else.

use std::{collections::HashMap, io, sync::Arc};

use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use super::{
    events::Subscription,
    export,
    methods::{Ordered, Request, SubscribeParams, Subscribed},
    outlet::Outlet,
    rpc::{self, Refusal},
    service::{Service, result},
};
use crate::limits::SUBSCRIPTIONS_MAX;

/// One connection's talk.
pub struct Conversation {
    service: Arc<Service>,
    outlet: Outlet,
    streams: JoinSet<u64>,
    running: HashMap<u64, AbortHandle>,
    begun: u64,
}

/// What is done once the answer is on its way.
enum Then {
    Nothing,
    /// The daemon cannot answer any more when it has stopped.
    Stop,
    Begin(Box<Subscription>),
}

type Answer = (Result<Value, Refusal>, Then);

impl Conversation {
    /// Over that connection.
    pub fn new(service: Arc<Service>, outlet: Outlet) -> Self {
        Self { service, outlet, streams: JoinSet::new(), running: HashMap::new(), begun: 0 }
    }

    /// Says that there is no going on.
    pub async fn refuse(&self, refusal: Refusal) -> io::Result<()> {
        self.outlet.answer(&rpc::answer(&Value::Null, Err(refusal))).await
    }

    /// Answers one line.
    pub async fn serve(&mut self, line: &[u8]) -> io::Result<()> {
        let message = rpc::read(line);
        let request = message.call.and_then(|call| Request::read(&call.method, call.params));
        let (outcome, then) = match request {
            Ok(request) => self.carry_out(request).await?,
            Err(refusal) => (Err(refusal), Then::Nothing),
        };
        let sent = match message.id {
            Some(id) => self.outlet.answer(&rpc::answer(&id, outcome)).await,
            None => Ok(()),
        };
        match then {
            Then::Nothing => {}
            Then::Stop => self.service.stop().await,
            Then::Begin(subscription) => self.begin(*subscription),
        }
        sent
    }

    async fn carry_out(&mut self, request: Request) -> io::Result<Answer> {
        Ok(match request {
            Request::EventsSubscribe(params) => match self.subscribe(&params).await {
                Ok((subscribed, subscription)) => (result(subscribed), Then::Begin(Box::new(subscription))),
                Err(refusal) => (Err(refusal), Then::Nothing),
            },
            Request::EventsUnsubscribe(params) => {
                (self.unsubscribe(params.subscription).await?, Then::Nothing)
            }
            Request::SessionsExport(params) => {
                (export::export(&self.service, &params, &self.outlet).await?, Then::Nothing)
            }
            Request::Shutdown => match self.service.answer(Request::Shutdown).await {
                Ok(ordered) => (Ok(ordered), Then::Stop),
                refused => (refused, Then::Nothing),
            },
            request => (self.service.answer(request).await, Then::Nothing),
        })
    }

    async fn subscribe(&mut self, params: &SubscribeParams) -> Result<(Subscribed, Subscription), Refusal> {
        while let Some(ended) = self.streams.try_join_next() {
            ended.into_iter().for_each(|number| drop(self.running.remove(&number)));
        }
        if self.running.len() >= SUBSCRIPTIONS_MAX {
            let why =
                format!("{SUBSCRIPTIONS_MAX} streams of events run on this connection, which is the limit");
            return Err(Refusal::internal(why));
        }
        let session = match &params.session {
            Some(id) => Some(self.service.known(id).await?),
            None => None,
        };
        self.begun += 1;
        let (reader, outlet) = (self.service.reader.clone(), self.outlet.clone());
        let wanted = (session, params.kinds.as_deref());
        let subscription = Subscription::new(self.begun, reader, outlet, wanted, params.since);
        Ok((Subscribed { subscription: self.begun, newest: subscription.newest() }, subscription))
    }

    fn begin(&mut self, subscription: Subscription) {
        let number = self.begun;
        let stream = self.streams.spawn(async move {
            subscription.run().await;
            number
        });
        self.running.insert(number, stream);
    }

    /// No line of it is cut off, and none follows its answer.
    async fn unsubscribe(&mut self, number: u64) -> io::Result<Result<Value, Refusal>> {
        let Some(stream) = self.running.remove(&number) else {
            return Ok(Err(Refusal::params(format!("params.subscription: {number} is none that runs"))));
        };
        let _still = self.outlet.still().await?;
        stream.abort();
        Ok(result(Ordered {}))
    }
}
