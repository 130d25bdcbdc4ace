//! The peers' clients: each caller has a connection of its own, on loopback.

mod beanstalkd;
mod postgresql;
mod redis;

pub(super) use beanstalkd::Beanstalkd;
pub(super) use postgresql::Postgresql;
pub(super) use redis::Redis;
