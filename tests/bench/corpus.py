"""Conversations to measure with: invented, seeded, with words as unevenly common as words are."""

from __future__ import annotations

import random

_ZH = """
数据结构 试卷 简答题 选择题 链表 二叉树 红黑树 排序 查找 图论 遍历 递归 复杂度 老师 学生 班级 教案 课件 讲解 练习
作业 难度 中等 重点 总结 答案 解析 第三章 第四章 期末 复习 大纲 例题 步骤 说明 代码 函数 变量 循环 条件 数组 指针
内存 缓存 网络 协议 数据库 索引 事务 日志 配置 部署 服务 接口 请求 响应 错误 调试 性能 测试 版本 发布 文档 需求 设计
评审 计划 进度 会议 周报 邮件 客户 合同
""".split()
_EN = """
exam paper question answer tree graph list stack queue sort search index query commit deploy server client error timeout
retry budget token memory summary thread agent model prompt context plan review meeting report weekly customer contract
invoice travel hotel flight dinner recipe garden music movie book chapter lesson homework
""".split()


def _words(rng: random.Random, vocabulary: list[str], count: int) -> list[str]:
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    rare = [f"{rng.choice(vocabulary)}{rng.randrange(5000)}" for _ in range(max(1, count // 20))]
    return rng.choices(vocabulary, weights, k=count) + rare


def text(rng: random.Random, size_bytes: int) -> str:
    """Returns sentences of about `size_bytes` of UTF-8: two thirds in Chinese, the rest in English."""
    parts: list[str] = []
    size = 0
    while size < size_bytes:
        zh = rng.random() < 2 / 3
        words = _words(rng, _ZH if zh else _EN, rng.randrange(6, 18))
        rng.shuffle(words)
        parts.append("".join(words) + "。" if zh else " ".join(words).capitalize() + ". ")
        size += len(parts[-1].encode())
    return "".join(parts).encode()[:size_bytes].decode("utf-8", "ignore")
